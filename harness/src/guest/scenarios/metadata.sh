# A namespace with 64 bytes of metadata beside each block: what is written past the block layer is found, with metadata and without.
#: memory 1G
#: limit 300
#: namespace size=128M block=4096 metadata=64
#: example larder-device:device_check
#: check says(checked, "differences: 0")

step checked device_check nvme:/dev/ng0n1 --placement off --ops 3000 --seed 1
