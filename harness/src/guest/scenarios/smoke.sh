# What the kernel and nvme-cli say of a drive, and what a write does to it.
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=4096 ruhs=0;1;2;3;4;5;6;7
#: binary larder-cli:larder
#: check number(write_streams) = 8
#: check number(granularity) = 16M
#: check json(configs, configs.0.runs) = number(granularity)
#: check json(configs, configs.0.nruh) = handles(fresh)
#: check hbmw(after) - hbmw(before) = 8M
#: check mbmw(after) - mbmw(before) = 8M
#: check hbmw(after) = hbmw(after_json)
#: check ruamw(fresh, 0) - ruamw(written, 0) = 8M / 4K
#: check ruamw(written, 7) = 16M / 4K
#: check ruamw(written, 0) = ruamw(written_json, 0)
#: check says(larder, "larder 0.")

step write_streams cat /sys/block/nvme0n1/queue/max_write_streams
step granularity cat /sys/block/nvme0n1/queue/write_stream_granularity
step configs nvme fdp configs /dev/nvme0 -e 1 -o json
step fresh nvme fdp status /dev/nvme0n1
step before nvme fdp stats /dev/nvme0 -e 1
step write dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=8 oflag=direct
step after nvme fdp stats /dev/nvme0 -e 1
step after_json nvme fdp stats /dev/nvme0 -e 1 -o json
step written nvme fdp status /dev/nvme0n1
step written_json nvme fdp status /dev/nvme0n1 -o json
step larder larder --version
