# A drive without FDP, a namespace that may only be read, a user without rights: one clear error each.
#: memory 1G
#: subsystem fdp=off
#: namespace size=64M block=4096
#: namespace size=16M block=512 readonly
#: example larder-device:device_check
#: check exit(required) = 1
#: check says(required, "placement is required and there is none")
#: check says(preferred, "notice:")
#: check says(preferred, "differences: 0")
#: check exit(read_only) = 1
#: check exit(denied) = 1
#: check says(denied, "ermission denied")

step required device_check /dev/nvme0n1 --placement required --ops 1000
step preferred device_check /dev/nvme0n1 --placement preferred --ops 10000
step read_only device_check /dev/nvme0n2 --ops 1000
step denied su -s /bin/sh nobody -c "device_check /dev/nvme0n1 --ops 1000"
