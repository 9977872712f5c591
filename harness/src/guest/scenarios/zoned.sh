# A cache of large objects on a zoned namespace, and a process that is killed at work on its zones.
#: memory 768M
#: limit 600
#: namespace size=256M block=4096 zoned=8M+10+12
#: binary larder-cli:larder
#: example larder-cli:zones
#: check says(offers, "zones of 8388608 bytes as blocks, host-managed")
#: check exit(first) = 0
#: check exit(second) = 0
#: check exit(third) = 0
#: check exit(kills) = 0
#: check says(second, "wrong 0")
#: check says(third, "wrong 0")
#: check says(third, "device_errors 0")
#: check says(kills, "killed 15")

step offers larder vssd list --device /dev/nvme0n1
step kills zones kills /dev/nvme0n1 --times 15
step first zones cache /dev/nvme0n1 --round 1
step second zones cache /dev/nvme0n1 --round 2
step third zones cache /dev/nvme0n1 --round 3
