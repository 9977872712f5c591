# A partition in blocks of 4 KiB, on a drive without FDP.
#: subsystem fdp=off
#: namespace size=64M block=4096 partition=16M+8M
#: check number(partition_start) = 16M / 512
#: check number(partition_size) = 8M / 512
#: check says(write, "No space left")
#: check exit(write) = 1
#: check same(written, read)
#: check number(write_streams) = 0
#: check exit(stats) != 0

step partition_start cat /sys/block/nvme0n1/nvme0n1p1/start
step partition_size cat /sys/block/nvme0n1/nvme0n1p1/size
dd if=/dev/urandom of=/tmp/bytes bs=1M count=8 2>/dev/null
# More than the partition can hold: the write must end at its end.
fill() {
    cat /tmp/bytes /tmp/bytes | dd of=/dev/nvme0n1p1 bs=1M iflag=fullblock oflag=direct
}
read_back() {
    dd if=/dev/nvme0n1p1 bs=1M iflag=direct 2>/dev/null | sha256sum
}
expected() {
    sha256sum </tmp/bytes
}
step write fill
step written expected
step read read_back
step write_streams cat /sys/block/nvme0n1/queue/max_write_streams
step stats nvme fdp stats /dev/nvme0 -e 1
