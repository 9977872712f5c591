# The core fails beneath ext4 on a running cache: what the cache has goes on being served, what it could not destage stays dirty, and goes there when the core is well.
#: memory 1G
#: limit 300
#: module dm_mod
#: module dm_flakey
#: module nbd
#: namespace size=64M block=512
#: namespace size=96M block=512
#: binary larder-cli:larder
#: program dmsetup
#: program nbd-client
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
# Write-back: clients do not notice. A flush fails, is counted, and loses nothing.
#: check exit(flush) = 1
#: check says(flush, "are dirty still, of core 0 at")
#: check json(after_flush, errors.core_writes) > 0
#: check json(after_flush, errors.cache_writes) = 0
#: check json(after_flush, usage.dirty_bytes) > 1M
#: check json(found, running.found.dirty_bytes) > 1M
# No command is needed: data that could not be destaged is destaged when the core works again.
#: check json(healed, usage.dirty_bytes) = 0
#: check says(rows_of_core, "whole")
# Write-through: the client gets the error of its write, and cache and core never differ.
#: check exit(wt_refused) != 0
#: check json(wt_errors, errors.core_writes) > 0
#: check json(wt_errors, errors.cache_writes) = 0
#: check same(wt_disk, wt_core)
# The core is gone: cached data can be read, other reads fail.
#: check exit(gone_read) != 0
#: check json(gone_errors, errors.core_reads) > 0
#: check exit(gone_start) = 1
#: check says(gone_start, "error: core 0: ")

cache=block:/dev/mapper/cache
core=/dev/mapper/core
. /served
. /sick

is_clean() {
    json_of stats >/dev/null && grep -q '"dirty_bytes": 0' /tmp/json
}

both() {
    write_files $1 1 $2 && write_rows delete $(next_row) $(($(next_row) + $2))
}

mkdir -p /fs
step devices sick_devices
step created larder block create $cache --core block:$core --mode wb
step start started --cleaning nop
step mkfs mkfs.ext4 -q -b 4096 /dev/nbd0
step mount mount -t ext4 /dev/nbd0 /fs
step tables made_tables
step files write_files a 1 20
step rows write_rows delete 1 20
step sick sick core error_writes
step both both b 15
step flush larder block flush --unix /tmp/s
step after_flush json_of stats
step after_healthy is_healthy true
step both_more both c 10
step checked checked
step files_sick files_right
step rows_sick rows_right
step killed killed_now
step start_2 started --cleaning nop
step found json_of status
step replayed replayed
step files_killed files_right
step rows_killed rows_right
step cleaning larder block cleaning acp --unix /tmp/s
step both_cleaned both d 10
usleep 2000000
step well well core
step heals await 60 is_clean
step healed json_of stats
step umount unmounted
step stop larder block stop --flush --unix /tmp/s
step core_sound e2fsck -fn $core
step core_mounted mount -t ext4 -o ro $core /fs
step files_of_core files_right
step rows_of_core rows_right
step core_free umount /fs

step wt_start started --cleaning nop --mode wt
step wt_mount mount -t ext4 /dev/nbd0 /fs
step wt_files write_files e 1 10
step wt_sick sick core error_writes
step wt_refused write_files f 1 20
step wt_errors json_of stats
step wt_unmounted unmounted
step wt_well well core
step wt_attached_2 attached
step wt_replayed replayed
step wt_files_right files_right
step wt_rows_right rows_right
step wt_both both g 5
step wt_unmounted_2 umount /fs
step wt_disk sum_of /dev/nbd0
step wt_core sum_of $core

step gone_small dd if=/dev/nbd0 of=/tmp/before bs=4k count=1 iflag=direct
step gone_sick sick core
step gone_cached dd if=/dev/nbd0 of=/tmp/after bs=4k count=1 iflag=direct
step gone_same cmp /tmp/before /tmp/after
step gone_read dd if=/dev/nbd0 of=/dev/null bs=64k iflag=direct
step gone_errors json_of stats
step gone_disk nbd-client -d /dev/nbd0
step gone_stop larder block stop --unix /tmp/s
step gone_start larder block start $cache --unix /tmp/s
step gone_well well core
step last_start started --cleaning nop
step last_replayed replayed
step last_files files_right
step last_rows rows_right
step last_unmounted unmounted
step last_stop larder block stop --unix /tmp/s
step last_core e2fsck -fn $core
