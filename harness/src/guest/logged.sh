# A workload on ext4 on a write-back cache whose writes dm-log-writes has logged, and checks of what must exist when
# they are replayed. A scenario reads it with `. /logged`. It must define `logged MARK`, which puts a mark into the log
# or logs when the marked data is durable, and a function `flushed` that destages everything.

# served CACHE SOCKET OPTION...
served() {
    local cache=$1 socket=$2
    shift 2
    rm -f $socket
    larder block start $cache --unix $socket "$@" >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 30 grep -q ready /tmp/started && nbd-client -unix $socket -N 0 /dev/nbd0 >/dev/null &&
        await 10 is_there
}

is_there() {
    [ "$(blockdev --getsize64 /dev/nbd0)" = 33554432 ]
}

content() {
    yes "file $1 of the pantry" | head -c $(($1 * 7919 % 90000 + 1))
}

# write_files FIRST LAST: marked files are durable.
write_files() {
    mkdir -p /fs
    for n in $(seq $1 $2); do
        content $n >/tmp/content
        dd if=/tmp/content of=/fs/$n bs=32k conv=fsync 2>/dev/null && logged f-$n || return 1
        echo "$(sha256sum </tmp/content | cut -d ' ' -f 1)  $n" >>/tmp/files
    done
}

write_rows() {
    {
        # With less than `extra`, the journal that a commit removes may come back.
        echo 'pragma synchronous=extra;'
        for n in $(seq $1 $2); do
            echo "begin; insert into t values($n, printf('%0*d', $n * 37 % 3000, $n)); update sum set n = n + $n; commit;"
            echo ".system logged r-$n"
        done
    } | sqlite3 -bail /fs/db
}

removed() {
    for n in $(seq $1 $2); do
        logged d-$n && rm /fs/$n || return 1
    done
    sync
    fstrim /fs
}

made() {
    mkfs.ext4 -q -b 4096 /dev/nbd0 && mount -t ext4 /dev/nbd0 /fs &&
        sqlite3 /fs/db 'create table t(n integer primary key, v text); create table sum(n); insert into sum values(0);' &&
        sync && logged mkfs
}

# Only dirty, destaged while it is written, written through, and destaged at the end.
worked() {
    local s='--unix /tmp/s'
    write_files 1 12 && write_rows 1 15 || return 1
    larder block cleaning acp $s && write_files 13 24 && write_rows 16 25 || return 1
    flushed && removed 1 6 && write_files 25 30 || return 1
    larder block mode wt $s && write_rows 26 30 && write_files 31 36 || return 1
    larder block mode wb $s && larder block cleaning nop $s && write_files 37 44 && removed 13 18 && write_rows 31 40 || return 1
    umount /fs && nbd-client -d /dev/nbd0 >/dev/null && larder block stop --flush $s
}

# Checks for what the marks so far require, on the file system at /fs.
as_marked() {
    awk 'NR == FNR { if (sub(/^f-/, "")) want[$0] = 1; else if (sub(/^d-/, "")) delete want[$0]; next } $2 in want' \
        ${1:-/tmp/marks} /tmp/files >/tmp/required
    [ ! -s /tmp/required ] || (cd /fs && sha256sum -c /tmp/required >/tmp/sums 2>&1) || { grep -v OK /tmp/sums; return 1; }
    local row=$(grep '^r-' ${1:-/tmp/marks} | tail -n 1 | cut -c 3-)
    row=${row:-0}
    sqlite3 /fs/db "pragma integrity_check; select case when count(*) = ifnull(max(n), 0) and ifnull(max(n), 0) in ($row, $row + 1)
        and ifnull(sum(n), 0) = (select n from sum) then 'whole' else 'not $row: ' || count(*) end from t;" >/tmp/rows
    [ "$(cat /tmp/rows)" = "ok
whole" ] || { cat /tmp/rows; return 1; }
}

# judged_on DISK: the mount replays the journal; afterwards no repair may be needed.
judged_on() {
    mount -t ext4 $1 /fs || return 1
    as_marked
    local right=$?
    umount /fs
    [ $right = 0 ] && e2fsck -fn $1 >/tmp/fsck 2>&1 || { cat /tmp/fsck; return 1; }
    files_judged=$((files_judged + $(wc -l </tmp/required)))
    judged=$((judged + 1))
}

# The core alone after `larder block recover`.
by_recover() {
    larder block recover block:/dev/loop0 --core 0=block:/dev/loop1 >/tmp/recovered 2>&1 || { cat /tmp/recovered; return 1; }
    judged_on /dev/loop1
}

# Through the cache after a start.
by_start() {
    served block:/dev/loop0 /tmp/r --core 0=block:/dev/loop1 && ! grep -q REFUSED /tmp/started || { cat /tmp/started; return 1; }
    judged_on /dev/nbd0
    local right=$?
    nbd-client -d /dev/nbd0 >/dev/null
    larder block stop --unix /tmp/r >/dev/null && wait $(cat /tmp/pid) && return $right
}

# by HOW: on disks with blocks of 512 bytes, like the logged ones.
by() {
    losetup /dev/loop0 /tmp/cache && losetup /dev/loop1 /tmp/core && by_$1
    local right=$?
    losetup -d /dev/loop0
    losetup -d /dev/loop1
    return $right
}

# judged_at WHAT EVERY: checks /tmp/cache and /tmp/core, by a start at every EVERY-th moment, else by a recovery.
judged_at() {
    [ -e /tmp/core_alone ] || cp /tmp/core /tmp/core_alone
    local how=recover
    [ $(((judged + 1) % $2)) != 0 ] || how=start
    by $how || { echo "$1, by $how: $(tail -n 3 /tmp/marks | tr '\n' ' ')"; return 1; }
    echo "$1 is right, by $how, $(wc -l </tmp/required) files"
}

# The last point, with a file that is never written.
too_early() {
    mount -t ext4 -o ro,noload -o loop /tmp/core /fs || return 2
    echo f-99 >/tmp/more
    echo "$(sha256sum </dev/null | cut -d ' ' -f 1)  99" >>/tmp/files
    as_marked /tmp/more
}
