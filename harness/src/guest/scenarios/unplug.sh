# The drive is pulled while dd writes to it: dd must hear of it and end.
#: limit 120
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=1G block=4096 ruhs=0;1;2;3
#: at pull device_del nvme0
#: check exit(pulled) = 1
#: check says(pulled, "error writing '/dev/nvme0n1'")
#: check exit(left) != 0

# Writes the same blocks repeatedly until the drive is gone.
write_until_it_is_gone() {
    { usleep 300000; mark pull; } &
    # Check for the device node, or dd would make a regular file of that name.
    while [ -b /dev/nvme0n1 ]; do
        dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=1000 oflag=direct || return
    done
    return 2
}
step there ls /sys/block/nvme0n1/device
step pulled write_until_it_is_gone
step gone await 20 gone /sys/block/nvme0n1
step left ls /dev/nvme0n1 /dev/ng0n1
