# A kernel without write streams: passthrough is chosen; what cannot place is refused or said.
#: kernel old
#: memory 1G
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=128M block=4096 ruhs=0;1;2;3
#: example larder-device:device_check
#: check says(chosen, "placement: NVMe passthrough of /dev/ng0n1")
#: check says(chosen, "differences: 0")
#: check exit(refused) = 1
#: check says(refused, "placement is required and there is none")
#: check says(preferred, "notice:")
#: check says(preferred, "differences: 0")

step chosen device_check /dev/nvme0n1 --placement required --ops 4000
step refused device_check block:/dev/nvme0n1 --placement required --ops 1000
step preferred device_check block:/dev/nvme0n1 --placement preferred --ops 4000
