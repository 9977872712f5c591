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
# Nothing has been destaged: without the cache there is no file system.
#: check exit(core_alone) = 8
#: check json(dirty_before, usage.dirty_bytes) > 1M
# Writes were in flight at each kill, and the start found dirty data.
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

cache=@CACHE@
core=/dev/nvme0n2
. /served

made_ready() {
    mkdir -p /mnt /fs
    case $cache in dax:*) ;; *) return ;; esac
    await 20 test -b /dev/pmem0 && mkfs.ext4 -q -b 4096 /dev/pmem0 && mount -t ext4 -o dax /dev/pmem0 /mnt &&
        truncate -s 64M /mnt/cache
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

step ready made_ready
step created larder block create $cache --core block:$core --mode wb
step start started --cleaning nop
step mkfs mkfs.ext4 -q -b 4096 /dev/nbd0
step mount mount -t ext4 /dev/nbd0 /fs
step tables made_tables
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

# From now on dirty data is destaged all the time.
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
# A wrong checksum must be detected.
step wrong_file sh -c 'sed -i "s/^..../0000/" /tmp/files; cd /fs && sha256sum -c /tmp/files'
