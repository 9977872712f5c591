# A write-back cache on a namespace with 64 bytes of metadata beside each block, where its headers lie: killed under load, ended, and refused by the block layer's path.
#: memory 1G
#: limit 300
#: module nbd
#: namespace size=64M block=4096 metadata=64
#: namespace size=96M block=512
#: namespace size=64M block=4096
#: binary larder-cli:larder
#: program nbd-client
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
#: check says(created, "headers    in 64 bytes of metadata beside each block")
#: check json(label, header_metadata_bytes) = 64
#: check json(status, header_metadata_bytes) = 64
#: check says(metrics, "larder_block")
# Nothing has been destaged: without the cache there is no file system.
#: check exit(core_alone) = 8
#: check json(dirty_before, usage.dirty_bytes) > 1M
# Only the space of footers: with a block for each header it would be half of everything.
#: check json(dirty_before, metadata_bytes) * 20 < json(dirty_before, cache_written_bytes)
#: check number(files_at_kill) >= 20
# Through a path without metadata, and on a copy without metadata, a cache with dirty data must not be changed.
#: check says(unsaid, "not stopped")
#: check exit(block_start) = 2
#: check says(block_start, "it keeps 0 bytes of metadata beside blocks of 4096")
#: check exit(block_recover) = 2
#: check says(block_recover, "headers in 64 beside blocks of 4096")
#: check exit(copy_start) = 2
#: check says(copy_start, "it keeps 0 bytes of metadata")
#: check same(sum_before, sum_after)
#: check json(found, running.found.dirty_bytes) > 0
#: check json(found, running.found.failed_reads) = 0
#: check json(found_again, running.found.failed_reads) = 0
#: check json(found_again, running.found.changed) = 0
#: check json(after, errors.total) = 0
#: check says(rows_of_core, "whole")
#: check says(last, "stopped")

cache=nvme:/dev/ng0n1
core=/dev/nvme0n2
. /served

# The data of the cache device without its metadata.
copied() {
    dd if=/dev/nvme0n1 of=/dev/nvme0n3 bs=1M iflag=direct oflag=direct
}

mkdir -p /fs
step created larder block create $cache --core block:$core --mode wb
step label larder block status $cache --json -
step start started --cleaning nop --metrics 127.0.0.1:9181
step loopback ip link set lo up
step metrics wget -q -O - http://127.0.0.1:9181/metrics
step status json_of status
step mkfs mkfs.ext4 -q -b 4096 /dev/nbd0
step mount mount -t ext4 /dev/nbd0 /fs
step tables made_tables
step files write_files a 1 40
step rows write_rows delete 1 100
step dirty_before json_of stats
step core_alone e2fsck -fn $core
step checked checked
step files_first files_right
step rows_first rows_right

step files_at_kill killed 20
step unsaid larder block status $cache
step sum_before sum_of /dev/nvme0n1
step block_start larder block start block:/dev/nvme0n1 --unix /tmp/s
step block_recover larder block recover block:/dev/nvme0n1
step copied copied
step copy_start larder block start block:/dev/nvme0n3 --unix /tmp/s
step sum_after sum_of /dev/nvme0n1
step start_2 started --cleaning nop
step found json_of status
step replayed replayed
step files_second files_right
step rows_second rows_right

# From now on dirty data is destaged all the time, and segments are reclaimed: the log wraps around.
step cleaning larder block cleaning acp --unix /tmp/s
step removed removed a 1 30
step more write_files b 1 60
step killed_again killed 20
step start_3 started --cleaning acp
step found_again json_of status
step replayed_again replayed
step files_third files_right
step rows_third rows_right
step rows_more write_rows delete $(next_row) $(($(next_row) + 9))
step after json_of stats

step umount umount /fs
step disk_gone nbd-client -d /dev/nbd0
step stopped larder block stop --flush --unix /tmp/s
step ended wait $(cat /tmp/pid)
step last larder block status $cache
step core_sound e2fsck -fn $core
step core_mounted mount -t ext4 -o ro $core /fs
step files_of_core files_right
step rows_of_core rows_right
