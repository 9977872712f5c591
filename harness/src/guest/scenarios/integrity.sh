# Random writes, reads and deallocations through each way to the drive, held against a shadow.
#: memory 1G
#: limit 300
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=4096 ruhs=0;1;2;3;4;5;6;7
#: example larder-device:device_check
#: check says(streams, "differences: 0")
#: check says(passthrough, "differences: 0")
#: check says(plain, "differences: 0")
# A thread that hosts a ring, and one that does not: large entries, write streams.
#: check says(passthrough_hosted, "differences: 0")
#: check says(passthrough_hosted, "hosted: ")
#: check says(streams_hosted, "differences: 0")
#: check says(streams_hosted, "hosted: ")

step streams device_check block:/dev/nvme0n1 --placement required --ops 6000 --seed 1
step passthrough device_check nvme:/dev/ng0n1 --placement required --ops 6000 --seed 2
step plain device_check block:/dev/nvme0n1 --placement off --ops 6000 --seed 3
step passthrough_hosted device_check nvme:/dev/ng0n1 --placement required --ops 6000 --seed 4 --hosted 1
step streams_hosted device_check block:/dev/nvme0n1 --placement required --ops 6000 --seed 5 --hosted 1
