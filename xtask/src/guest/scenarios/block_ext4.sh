# A file system and a database on a write-back cache at @CACHE@, by the kernel's own NBD client: killed under load, set otherwise, taken away.
#: variant drive CACHE=block:/dev/nvme0n1
#: variant pmem CACHE=dax:/mnt/cache
#: memory 1G
#: limit 600
#: boot memmap=256M!384M
#: module nd_e820
#: module nd_pmem
#: module nbd
#: namespace size=64M block=512
#: namespace size=96M block=512
#: binary larder-cli:larder
#: program nbd-client
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
# Nothing has gone to the core: without the cache there is no file system.
#: check exit(core_alone) = 8
#: check json(dirty_before, usage.dirty_bytes) > 1M
# Something was under way at each kill, and the start found dirty data.
#: check number(files_at_kill) >= 20
#: check json(found, running.found.dirty_bytes) > 0
#: check json(found, running.found.failed_reads) = 0
#: check json(found_again, running.found.failed_reads) = 0
#: check says(trimmed, "bytes trimmed")
#: check json(after_trim, usage.dirty_bytes) < json(before_trim, usage.dirty_bytes)
#: check says(modes, "pass-through")
#: check json(after_modes, errors.total) = 0
#: check says(detached, "nothing is dirty")
#: check says(rows_of_core, "whole")
#: check exit(wrong_file) = 1

core=/dev/nvme0n2

made_ready() {
    mkdir -p /mnt /fs
    case @CACHE@ in dax:*) ;; *) return ;; esac
    await 20 test -b /dev/pmem0 && mkfs.ext4 -q -b 4096 /dev/pmem0 && mount -t ext4 -o dax /dev/pmem0 /mnt &&
        truncate -s 64M /mnt/cache
}

# started OPTION...: serves the core, and the kernel has it as a disk, over two connections.
started() {
    rm -f /tmp/s
    larder block start @CACHE@ --unix /tmp/s --threads 2 "$@" >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 30 grep -q ready /tmp/started && attached
}

attached() {
    nbd-client -unix /tmp/s -N 0 -C 2 /dev/nbd0 && await 10 is_there
}

is_there() {
    [ "$(blockdev --getsize64 /dev/nbd0)" = "$(blockdev --getsize64 $core)" ]
}

json_of() {
    larder block $1 --unix /tmp/s --json /tmp/json >/dev/null && cat /tmp/json
}

# What file NUMBER of a name has: 1 byte to 150,000, the same for everybody.
content() {
    yes "$1, file $2 of the pantry" | head -c $(($2 * 7919 % 150000 + 1))
}

# write_files NAME FIRST LAST: each is synced; those that were are in /tmp/files, as sha256sum reads it.
write_files() {
    for n in $(seq $2 $3); do
        content $1 $n >/tmp/content.$1
        dd if=/tmp/content.$1 of=/fs/$1-$n bs=64k conv=fsync 2>/dev/null || return 1
        echo "$(sha256sum </tmp/content.$1 | cut -d ' ' -f 1)  $1-$n" >>/tmp/files
    done
}

# write_rows JOURNAL FIRST LAST: a transaction a row, and a sum that each of them changes; those that were committed are in /tmp/rows.
write_rows() {
    {
        echo "pragma journal_mode=$1; pragma synchronous=full; pragma busy_timeout=60000;"
        for n in $(seq $2 $3); do
            echo "begin; insert into t values($n, printf('%0*d', $n * 37 % 3000, $n)); update sum set n = n + $n; commit; select 'row', $n;"
        done
    } | sqlite3 -bail /fs/db | grep '^row' >>/tmp/rows
    [ "$(tail -n 1 /tmp/rows)" = "row|$3" ]
}

# Every file that was synced is what it was.
files_right() {
    (cd ${1:-/fs} && sha256sum -c /tmp/files) >/tmp/checked && [ -s /tmp/checked ]
}

# The database is sound, and has every row that was committed, and at most one of whose commit nobody was told.
rows_right() {
    local told=$(tail -n 1 /tmp/rows | cut -d '|' -f 2)
    sqlite3 ${1:-/fs}/db "pragma integrity_check; select count(*), max(n), (select n from sum) = sum(n) from t;
        select case when count(*) = max(n) and max(n) in ($told, $told + 1) then 'whole' else 'not $told' end from t;" >/tmp/rows_found
    cat /tmp/rows_found
    grep -qx ok /tmp/rows_found && grep -q '|1$' /tmp/rows_found && grep -qx whole /tmp/rows_found || return 1
    # What nobody was told of, if it is there, is told now.
    sqlite3 ${1:-/fs}/db "select 'row', max(n) from t;" >>/tmp/rows
}

next_row() {
    echo $(($(tail -n 1 /tmp/rows | cut -d '|' -f 2) + 1))
}

# killed FILES: writers work until so many files more are synced; then the server is gone, and after it the disk.
killed() {
    local before=$(wc -l </tmp/files)
    write_files k$before 1 5000 &
    local files=$!
    write_rows wal $(next_row) 100000 &
    local rows=$!
    await 120 more_files $((before + $1))
    kill -9 $(cat /tmp/pid)
    wait $(cat /tmp/pid)
    wait $files
    wait $rows
    echo $(($(wc -l </tmp/files) - before))
    umount /fs
    nbd-client -d /dev/nbd0 >/dev/null
}

more_files() {
    [ $(wc -l </tmp/files) -ge $1 ]
}

# The kernel replays the journal; then nothing is left to repair.
replayed() {
    mount -t ext4 /dev/nbd0 /fs && umount /fs && e2fsck -fn /dev/nbd0 && mount -t ext4 /dev/nbd0 /fs
}

# All modes, flushes, policies and trims, while files and rows are written.
modes() {
    write_files m 1 60 &
    local files=$!
    write_rows delete $(next_row) $(($(next_row) + 59)) &
    local rows=$!
    for mode in wt wb wa wi wb wo pt wb; do
        larder block mode $mode --unix /tmp/s || return 1
        [ $mode != wo ] || larder block cleaning acp --unix /tmp/s || return 1
        larder block flush --unix /tmp/s >/dev/null || return 1
        fstrim /fs || return 1
        larder block cleaning nop --unix /tmp/s >/dev/null || return 1
        usleep 300000
    done
    wait $files && wait $rows
}

# removed NAME FIRST LAST
removed() {
    for n in $(seq $2 $3); do
        rm /fs/$1-$n && sed -i "/  $1-$n\$/d" /tmp/files || return 1
    done
    sync
}

# On its own, in order: off the disk, sound, on the disk again.
checked() {
    umount /fs && e2fsck -fn /dev/nbd0 && mount -t ext4 "$@" /dev/nbd0 /fs
}

step ready made_ready
step created larder block create @CACHE@ --core block:$core --mode wb
step start started --cleaning nop
step mkfs mkfs.ext4 -q -b 4096 /dev/nbd0
step mount mount -t ext4 /dev/nbd0 /fs
step tables sqlite3 /fs/db 'create table t(n integer primary key, v text); create table sum(n); insert into sum values(0);'
step files write_files a 1 60
step rows write_rows delete 1 150
step dirty_before json_of stats
step core_alone e2fsck -fn $core
step checked checked
step files_first files_right
step rows_first rows_right
step removed removed a 1 40
step before_trim json_of stats
step trimmed fstrim -v /fs
step after_trim json_of stats

step files_at_kill killed 25
step start_2 started --cleaning nop
step found json_of status
step replayed replayed
step files_second files_right
step rows_second rows_right

# Dirty data go to the core all the time now.
step cleaning larder block cleaning acp --unix /tmp/s
step killed_again killed 25
step start_3 started --cleaning nop
step found_again json_of status
step replayed_again replayed
step files_third files_right
step rows_third rows_right

step modes modes
step after_modes json_of stats
step checked_again checked -o discard
step files_fourth files_right
step rows_fourth rows_right
step files_more write_files z 1 40
step removed_more removed z 1 20
step rows_more write_rows delete $(next_row) $(($(next_row) + 99))

step umount umount /fs
step disk_gone nbd-client -d /dev/nbd0
step detached larder block detach --unix /tmp/s
step stopped larder block stop --unix /tmp/s
step ended wait $(cat /tmp/pid)
step core_sound e2fsck -fn $core
step core_mounted mount -t ext4 -o ro $core /fs
step files_of_core files_right
step rows_of_core rows_right
# A sum that is wrong is seen.
step wrong_file sh -c 'sed -i "s/^..../0000/" /tmp/files; cd /fs && sha256sum -c /tmp/files'
