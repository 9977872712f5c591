# Writers on the file system at /fs, and checks of their data. A scenario reads it with `. /writers`. Synced files are
# in /tmp/files, in sha256sum's format; committed rows are in /tmp/rows.

# The content of file NUMBER of a name: 1 byte to 150,000, always the same.
content() {
    yes "$1, file $2 of the pantry" | head -c $(($2 * 7919 % 150000 + 1))
}

# write_files NAME FIRST LAST: each file is synced before it is noted.
write_files() {
    for n in $(seq $2 $3); do
        content $1 $n >/tmp/content.$1
        dd if=/tmp/content.$1 of=/fs/$1-$n bs=64k conv=fsync 2>/dev/null || return 1
        echo "$(sha256sum </tmp/content.$1 | cut -d ' ' -f 1)  $1-$n" >>/tmp/files
    done
}

# removed NAME FIRST LAST
removed() {
    for n in $(seq $2 $3); do
        rm /fs/$1-$n && sed -i "/  $1-$n\$/d" /tmp/files || return 1
    done
    sync
}

# Every synced file is unchanged.
files_right() {
    (cd ${1:-/fs} && sha256sum -c /tmp/files) >/tmp/checked && [ -s /tmp/checked ]
}

# At least COUNT files were synced.
more_files() {
    [ $(wc -l </tmp/files) -ge $1 ]
}

made_tables() {
    sqlite3 /fs/db 'create table t(n integer primary key, v text); create table sum(n); insert into sum values(0);'
}

# write_rows JOURNAL FIRST LAST: one transaction for each row, which also changes a sum. With less than `extra`, the
# journal that a commit removes may come back.
write_rows() {
    {
        echo "pragma journal_mode=$1; pragma synchronous=extra; pragma busy_timeout=60000;"
        for n in $(seq $2 $3); do
            echo "begin; insert into t values($n, printf('%0*d', $n * 37 % 3000, $n)); update sum set n = n + $n; commit;"
            echo ".system echo row $n >>/tmp/rows"
        done
    } | sqlite3 -bail /fs/db >/dev/null
    [ "$(tail -n 1 /tmp/rows)" = "row $3" ]
}

next_row() {
    echo $(($(tail -n 1 /tmp/rows | cut -d ' ' -f 2) + 1))
}

# The database is valid, and has every committed row, and at most one more whose commit was not reported.
rows_right() {
    local told=$(tail -n 1 /tmp/rows | cut -d ' ' -f 2)
    sqlite3 ${1:-/fs}/db "pragma integrity_check; select count(*), max(n), (select n from sum) = sum(n) from t;
        select case when count(*) = max(n) and max(n) in ($told, $told + 1) then 'whole' else 'not $told' end from t;" >/tmp/rows_found
    cat /tmp/rows_found
    grep -qx ok /tmp/rows_found && grep -q '|1$' /tmp/rows_found && grep -qx whole /tmp/rows_found || return 1
    # Note the row whose commit was not reported, if it exists.
    sqlite3 ${1:-/fs}/db "select 'row ' || max(n) from t;" >>/tmp/rows
}
