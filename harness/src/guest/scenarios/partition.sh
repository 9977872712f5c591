# A partition that ends before its namespace, by passthrough: nothing leaves it. Blocks of 512 bytes.
#: memory 1G
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=128M block=512 ruhs=0;1;2;3 partition=16M+64M
#: example larder-device:device_check
#: check says(check, "placement: NVMe passthrough of /dev/ng0n1")
#: check says(check, "differences: 0")
# Single logical blocks, also in lists; zeros by the drive's own command.
#: check says(sectors, "block 512 bytes, compared by 512")
#: check says(sectors, "written so: 0")
#: check says(sectors, "differences: 0")
#: check says(sectors_block, "block 512 bytes, compared by 512")
#: check says(sectors_block, "differences: 0")
#: check says(canary, "refused:")
#: check exit(canary) = 0

step check device_check /dev/nvme0n1p1 --placement required --ops 6000
step sectors device_check nvme:/dev/nvme0n1p1 --placement required --ops 6000 --block-bytes 512
step sectors_block device_check block:/dev/nvme0n1p1 --placement off --ops 6000 --block-bytes 512
step canary device_check nvme:/dev/nvme0n1p1 --canary --ops 100
