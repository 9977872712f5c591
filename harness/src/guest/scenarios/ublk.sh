# A block cache as a disk of the kernel's: written by others, killed under load twice, taken over, ended.
#: memory 1G
#: limit 400
#: module ublk_drv
#: namespace size=96M block=512
#: namespace size=32M block=512
#: binary larder-cli:larder
#: program mkfs.ext4
#: program e2fsck
#: program blkdiscard
#: check says(started, "/dev/ublkb0")
#: check number(size) = 100663296
#: check number(logical) = 512
#: check number(physical) = 4096
#: check number(write_cache) = 1
#: check same(whole, source)
#: check same(odd, odd_source)
#: check same(zeroed, zeros)
#: check same(cached, direct)
#: check says(status, "served by process")
#: check same(synced, notes)
#: check exit(load) = 0
#: check says(again, "taken over")
#: check says(third, "taken over")
#: check says(waiting, "WAITS")
#: check says(waiting, "--remove 0")
#: check exit(stranger) = 2
#: check says(stranger, "belongs to another export")
#: check exit(served) != 0
#: check says(served, "serves it")
#: check same(loaded, load_source)
#: check same(beside, load_source)
#: check exit(e2fsck) = 0
#: check exit(e2fsck_again) = 0
#: check same(in_core, in_disk)
#: check exit(lonely) = 2
#: check says(listed, "no disk")

start() {
    larder block start block:/dev/nvme0n2 --ublk 0 --control /tmp/c --cleaning nop "$@" >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 60 grep -q ^ready /tmp/started && cat /tmp/started
}

killed() {
    kill -9 $(cat /tmp/pid)
    await 20 gone /proc/$(cat /tmp/pid)
}

# Blocks of every length from 512 bytes to 34 KiB, at offsets that are not aligned to lines.
odd_written() {
    local at=1
    for n in 1 3 7 8 9 15 31 68; do
        dd if=/tmp/source of=/dev/ublkb0 bs=512 count=$n skip=$at seek=$at oflag=direct conv=notrunc || return 1
        at=$((at + n + 5))
    done
}

whole() { dd if=/dev/ublkb0 bs=1M count=24 iflag=direct | sha256sum; }

filled() {
    dd if=/tmp/source of=/dev/ublkb0 bs=1M oflag=direct
}

# The file system: files that were made durable exist after a remount.
used() {
    mount -t ext4 /dev/ublkb0 /mnt && cp /tmp/notes /mnt/notes && sync -d /mnt/notes && sync
}

# Two writers write to the disk while its server is killed.
load() {
    dd if=/tmp/load of=/mnt/load bs=16k oflag=direct conv=fsync 2>/tmp/load.err &
    echo $! >/tmp/dd
    dd if=/tmp/load of=/mnt/beside bs=64k conv=fsync 2>/tmp/beside.err &
    echo $! >/tmp/dd_beside
}

longer() { [ $(stat -c %s /mnt/load) -gt $1 ]; }

# Kills the server while some requests have been started and more are waiting.
killed_at() {
    await 60 longer $1 && [ -e /proc/$(cat /tmp/dd)/exe ] && killed
}

# No request is answered, and none fails.
waits() {
    usleep 300000
    before=$(stat -c %s /mnt/load)
    usleep 1000000
    [ -e /proc/$(cat /tmp/dd)/exe ] && [ $(stat -c %s /mnt/load) = $before ]
}

loaded_to_its_end() {
    wait $(cat /tmp/dd) && wait $(cat /tmp/dd_beside)
}

step made sh -c 'dd if=/dev/urandom of=/tmp/source bs=1M count=24; dd if=/dev/urandom of=/tmp/load bs=1M count=24; dd if=/dev/urandom of=/tmp/notes bs=4k count=9'
step without sh -c 'larder block ublk'
step create larder block create block:/dev/nvme0n2 --core block:/dev/nvme0n1 --mode wb
step started start
step status larder block status --control /tmp/c
step size blockdev --getsize64 /dev/ublkb0
step logical cat /sys/block/ublkb0/queue/logical_block_size
step physical cat /sys/block/ublkb0/queue/physical_block_size
step write_cache sh -c 'grep -c "write back" /sys/block/ublkb0/queue/write_cache'
step fill filled
step whole whole
step source sh -c 'sha256sum </tmp/source'
step odd_write odd_written
step odd whole
step odd_source sh -c 'sha256sum </tmp/source'
step direct sh -c 'dd if=/dev/ublkb0 bs=4k count=256 skip=77 iflag=direct | sha256sum'
step cached sh -c 'dd if=/dev/ublkb0 bs=4k count=256 skip=77 | sha256sum'
step discard /bin/blkdiscard -o 1048576 -l 1048576 /dev/ublkb0
step zero /bin/blkdiscard -z -o 2097152 -l 1048576 /dev/ublkb0
step zeroed sh -c 'dd if=/dev/ublkb0 bs=1M skip=2 count=1 iflag=direct | sha256sum'
step zeros sh -c 'dd if=/dev/zero bs=1M count=1 | sha256sum'
step flush sync
mkdir -p /mnt
step mkfs mkfs.ext4 -q /dev/ublkb0
step use used
step kill killed
step waiting larder block status block:/dev/nvme0n2
step stranger sh -c 'truncate -s 96M /tmp/other; larder block export /tmp/other --ublk 0'
step again start
step synced sh -c 'sha256sum </mnt/notes'
step notes sh -c 'sha256sum </tmp/notes'
step served larder block ublk --remove 0
step begin_load load
step kill_under_load killed_at 4000000
step waits waits
step second start
step kill_once_more killed_at 16000000
step waits_again waits
step third start
step load loaded_to_its_end
step drop sh -c 'echo 3 >/proc/sys/vm/drop_caches'
step loaded sh -c 'sha256sum </mnt/load'
step beside sh -c 'sha256sum </mnt/beside'
step load_source sh -c 'sha256sum </tmp/load'
step unmount umount /mnt
step e2fsck e2fsck -f -n /dev/ublkb0
step in_disk sh -c 'sha256sum </dev/ublkb0'
step stop larder block stop --flush --control /tmp/c
step gone await 20 gone /dev/ublkb0
step in_core sh -c 'sha256sum </dev/nvme0n1'
step e2fsck_again e2fsck -f -n /dev/nvme0n1
step listed larder block ublk
step lonely larder block ublk --remove 0
