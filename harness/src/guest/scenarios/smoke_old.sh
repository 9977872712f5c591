# The same drive under a kernel without write streams: nvme-cli reaches it by passthrough.
#: kernel old
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=512 ruhs=0;1;2;3
#: binary larder-cli:larder
#: check exit(write_streams) != 0
#: check handles(fresh) = 4
#: check hbmw(after) - hbmw(before) = 8M
#: check ruamw(fresh, 0) - ruamw(written, 0) = 8M / 512
#: check says(larder, "larder 0.")

step write_streams cat /sys/block/nvme0n1/queue/max_write_streams
step fresh nvme fdp status /dev/nvme0n1
step before nvme fdp stats /dev/nvme0 -e 1
step write dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=8 oflag=direct
step after nvme fdp stats /dev/nvme0 -e 1
step written nvme fdp status /dev/nvme0n1
step larder larder --version
