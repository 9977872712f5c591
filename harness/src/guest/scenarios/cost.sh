# What a 4 KiB request costs through each way to the drive; none allocates anything.
#: memory 1G
#: limit 900
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=4096 ruhs=0;1;2;3;4;5;6;7
#: example larder-device:device_check
#: check says(streams, "placement: write streams")
#: check says(passthrough, "placement: NVMe passthrough")
#: check says(streams, "allocations in 80000 requests: 0")
#: check says(passthrough, "allocations in 80000 requests: 0")
#: check says(plain, "allocations in 80000 requests: 0")
#: check says(streams, "with a registered buffer: 40000")
#: check says(passthrough, "with a registered buffer: 40000")
#: check says(plain, "with a registered buffer: 40000")

# Write every block once, because reads of unwritten blocks would not reach the medium.
step fill dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=256 oflag=direct
step streams device_check block:/dev/nvme0n1 --cost --placement required
step passthrough device_check nvme:/dev/ng0n1 --cost --placement required
step plain device_check block:/dev/nvme0n1 --cost --placement off --engine io-uring
step pread device_check block:/dev/nvme0n1 --cost --placement off --engine threads
