# The cache device fails beneath ext4 on a running cache, write-through and write-back: what was synced stays, and requests that fail get an error.
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
# Write-through, few errors: each failed request is retried without the device, and the device stays in use.
#: check json(wt_few, errors.cache_writes) > 0
#: check json(wt_few, errors.core_writes) = 0
#: check json(wt_few, errors.tried_again) > 0
# Too many errors: everything bypasses the cache, and clients do not notice.
#: check says(wt_told, "its device has FAILED")
#: check json(wt_many, errors.cache_writes) >= 8
#: check json(wt_many, errors.core_writes) = 0
#: check says(wt_many, "cache failed")
# When the device answers again, its label says that its content is invalid, because cores were written without it.
#: check says(wt_label, "none that is believed")
#: check json(wt_found, running.found.valid_bytes) = 0
# Write-back, failing writes: dirty data can still be read, so a flush saves it. Then the core works alone.
#: check json(wb_before, usage.dirty_bytes) > 1M
#: check exit(wb_refused) != 0
#: check same(wb_dirty_bytes, wb_usage)
#: check json(wb_after, usage.dirty_bytes) = 0
#: check says(rows_of_core, "whole")
# Write-back, device gone: dirty ranges are listed, a stop reports what remains, and synced data exists when the device
# is back.
#: check exit(gone_write) != 0
#: check exit(gone_flush) != 0
#: check same(gone_dirty_bytes, gone_usage)
#: check number(gone_dirty_bytes) > 1M
#: check json(gone_found, running.found.dirty_bytes) > 1M
#: check exit(none) = 0
#: check says(none, "nothing is dirty")

cache=block:/dev/mapper/cache
core=/dev/mapper/core
. /served
. /sick

# filled FILES ROWS: makes a file system with FILES files and ROWS rows.
filled() {
    rm -f /tmp/files /tmp/rows
    mkfs.ext4 -q -b 4096 /dev/nbd0 && mount -t ext4 /dev/nbd0 /fs && made_tables &&
        write_files a 1 $1 && write_rows delete 1 $2
}

# while_written FILES COMMAND...: runs the command while files and rows are written; exits with 0 if all were written.
while_written() {
    local from=$(wc -l </tmp/files) to=$1
    shift
    write_files w$from 1 $to &
    local files=$!
    write_rows delete $(next_row) $(($(next_row) + to)) &
    local rows=$!
    await 30 more_files $((from + to / 4))
    "$@"
    wait $files && wait $rows
}

for_a_moment() {
    sick cache error_writes
    await 30 failed_writes
    well cache
}

failed_writes() {
    json_of stats | grep -q '"cache_writes": [1-9]'
}

# Bytes of the listed ranges. The list must be complete.
dirty_bytes() {
    larder block dirty --unix /tmp/s --json /tmp/json >/dev/null && grep -q '"has_more": false' /tmp/json || return 1
    sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' /tmp/json | awk '{ n += $1 } END { print n }'
}

usage() {
    json_of stats | sed -n 's/.*"dirty_bytes": \([0-9]*\).*/\1/p' | head -n 1
}

# told_later: the label is written when the device accepts it.
told_later() {
    well cache
    usleep 4000000
}

mkdir -p /fs
step devices sick_devices
step wt_created larder block create $cache --core block:$core --mode wt
step wt_start started --cleaning nop --cache-errors-max 1000000
step wt_filled filled 20 20
step wt_load while_written 40 for_a_moment
step wt_few json_of stats
step wt_few_healthy is_healthy true
step wt_checked checked
step wt_files files_right
step wt_rows rows_right
step wt_gone unmounted
step wt_stop larder block stop --unix /tmp/s
step wt_start_2 started --cleaning nop
step wt_mount mount -t ext4 /dev/nbd0 /fs
step wt_load_2 while_written 40 sick cache error_writes
step wt_many_healthy is_healthy false
step wt_told larder block status --unix /tmp/s
step wt_many json_of stats
step wt_checked_2 checked
step wt_files_2 files_right
step wt_rows_2 rows_right
step wt_well told_later
step wt_killed killed_now
step wt_label larder block status $cache
step wt_start_3 started --cleaning nop
step wt_found json_of status
step wt_replayed replayed
step wt_files_3 files_right
step wt_rows_3 rows_right
step wt_unmounted unmounted

step wb_mode larder block mode wb --unix /tmp/s
step wb_attached attached
step wb_filled filled 30 30
step wb_before json_of stats
step wb_sick sick cache error_writes
step wb_refused write_files x 1 40
step wb_healthy is_healthy false
step wb_dirty_bytes dirty_bytes
step wb_usage usage
step wb_unmounted unmounted
step wb_flush larder block flush --unix /tmp/s
step wb_after json_of stats
step wb_attached_2 attached
step wb_replayed replayed
step wb_files files_right
step wb_rows rows_right
step wb_more write_files y 1 10
step wb_more_rows write_rows delete $(next_row) $(($(next_row) + 9))
step wb_unmounted_2 unmounted
step wb_well well cache
step wb_stop larder block stop --unix /tmp/s
step wb_core_sound e2fsck -fn $core
step wb_core_mounted mount -t ext4 -o ro $core /fs
step files_of_core files_right
step rows_of_core rows_right
step core_free umount /fs

step gone_start started --cleaning nop --mode wb
step gone_filled filled 30 30
step gone_sick sick cache
step gone_write write_files x 1 40
step gone_flush larder block flush --unix /tmp/s
step gone_dirty_bytes dirty_bytes
step gone_usage usage
step gone_unmounted unmounted
step gone_killed killed_now
step gone_well well cache
step gone_start_2 started --cleaning nop
step gone_found json_of status
step gone_replayed replayed
step gone_files files_right
step gone_rows rows_right
step gone_more write_files z 1 10
step gone_checked checked
step gone_unmounted_2 unmounted
step gone_flush_2 larder block flush --unix /tmp/s
step none larder block dirty --unix /tmp/s
step gone_stop larder block stop --unix /tmp/s
step gone_core e2fsck -fn $core
