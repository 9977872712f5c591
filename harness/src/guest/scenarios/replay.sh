# A replay on @TARGET@, held against nvme-cli; then one without placement.
#: variant block TARGET=block:/dev/nvme0n1 NODE=/dev/nvme0n1
#: variant nvme TARGET=nvme:/dev/ng0n1 NODE=/dev/ng0n1
#: memory 1G
#: subsystem fdp=on fdp.runs=1G fdp.nruh=8
#: namespace size=512M block=4096 ruhs=0;1;2;3;4;5;6;7
#: binary larder-cli:larder
#: check says(placed, "of @NODE@, 7 handles beside the default")
#: check says(placed, "placement_active 1")
#: check ruamw(fresh, 1) - ruamw(written, 1) = json(report, runs.0.host_bytes_by_handle.1) / 4K
#: check ruamw(fresh, 2) - ruamw(written, 2) = json(report, runs.0.host_bytes_by_handle.2) / 4K
#: check json(report, runs.0.host_bytes_by_handle.2) > 0
#: check json(report, runs.0.placement_active) = 1
#: check json(report, drive.host_bytes_ever) = hbmw(after)
#: check json(report, drive.media_bytes_ever) = mbmw(after)
#: check json(report, drive.erased_bytes_ever) = mbe(after)
#: check json(report, drive.host_bytes) = hbmw(after) - hbmw(before)
#: check json(report, drive.media_bytes) = mbmw(after) - mbmw(before)
#: check json(report, drive.dlwa) = 1
#: check ruamw(fresh, 0) > ruamw(written, 0)
#: check ruamw(fresh, 3) = ruamw(written, 3)
#: check hbmw(after) - hbmw(before) = ruamw(fresh, 0) * 4K - ruamw(written, 0) * 4K + json(report, runs.0.host_bytes_by_handle.1) + json(report, runs.0.host_bytes_by_handle.2)
#: check ruamw(written, 1) = ruamw(off, 1)
#: check ruamw(written, 2) = ruamw(off, 2)
#: check ruamw(off, 0) < ruamw(written, 0)
#: check says(unplaced, "placement_active 0")
#: check json(unplaced_report, runs.0.placement_active) = 0
#: check json(unplaced_report, drive.host_bytes) = hbmw(end) - hbmw(after)
#: check json(unplaced_report, drive.media_bytes_ever) = mbmw(end)

REPLAY="larder replay --device @TARGET@ --flash 64M --dram 1M --requests 40000 --soc 40 --warmup 0"
step fresh nvme fdp status /dev/nvme0n1
step before nvme fdp stats /dev/nvme0 -e 1
step placed $REPLAY --placement-mode required --json /tmp/placed.json
step report cat /tmp/placed.json
step after nvme fdp stats /dev/nvme0 -e 1
step written nvme fdp status /dev/nvme0n1
step unplaced $REPLAY --placement-mode off --json /tmp/off.json
step unplaced_report cat /tmp/off.json
step end nvme fdp stats /dev/nvme0 -e 1
step off nvme fdp status /dev/nvme0n1
