# What `larder device` says of a drive, held against nvme-cli.
#: memory 512M
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=512 ruhs=0;1;2;3;4;5;6;7
#: binary larder-cli:larder
#: check says(list, "write streams")
#: check says(info, "8, initially isolated")
#: check json(stats_json, host_bytes) = hbmw(theirs)
#: check json(stats_json, media_bytes) = mbmw(theirs)
#: check says(prepare, "the drive is ready")
#: check says(trim, "--yes")

step write dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=24 oflag=direct
step list larder device list
step info larder device info /dev/nvme0n1
step stats larder device stats /dev/nvme0n1 --json /tmp/stats.json
step stats_json cat /tmp/stats.json
step theirs nvme fdp stats /dev/nvme0 -e 1
step events larder device events /dev/nvme0n1
step prepare larder device prepare /dev/nvme0
step trim larder device trim /dev/nvme0n1
