# ext4 and sqlite on a write-back cache as a disk of the kernel's with two queues: its server is killed under transactions, returns, and requests that waited go on.
#: memory 1G
#: limit 300
#: processors 2
#: module ublk_drv
#: namespace size=64M block=512
#: namespace size=96M block=512
#: binary larder-cli:larder
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
#: check number(queues) = 2
#: check says(started, "/dev/ublkb0")
# Transactions were in flight at each kill. The writers got no error, and continued.
#: check number(rows_at_kill) > 20
#: check says(waiting, "WAITS")
#: check says(again, "taken over")
#: check says(third, "taken over")
#: check number(queues_again) = 2
#: check exit(writers) = 0
#: check says(rows, "whole")
# If the disk is removed too, waiting requests fail, and committed data is on the next disk.
#: check number(rows_at_last_kill) > 160
#: check exit(writer) != 0
# The number cannot be used until the disk is unmounted.
#: check exit(number_in_use) != 0
#: check says(number_in_use, "unmount it, or give another number")
#: check says(fourth, "requests at a time")
#: check says(rows_replayed, "whole")
#: check exit(core_alone) != 0
#: check says(rows_of_core, "whole")

. /writers

start() {
    larder block start block:/dev/nvme0n1 --ublk 0 --threads 2 --control /tmp/c --cleaning nop >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 60 grep -q ^ready /tmp/started && cat /tmp/started
}

queues() { ls /sys/block/ublkb0/mq | wc -l; }

# Writes rows with both journals, to two databases of one file system, and files at the same time.
writers() {
    write_rows wal $(next_row) 160 &
    echo $! >/tmp/writer_of_rows
    write_files a 1 40 &
    echo $! >/tmp/writer_of_files
}

rows_told() { wc -l </tmp/rows; }

more_rows() { [ $(rows_told) -ge $1 ]; }

# killed_at ROWS: kills the server while transactions are in flight.
killed_at() {
    await 60 more_rows $1 && [ -e /proc/$(cat /tmp/writer_of_rows)/exe ] || return 1
    kill -9 $(cat /tmp/pid)
    await 20 gone /proc/$(cat /tmp/pid)
    rows_told
}

# No request is answered, and none fails.
waits() {
    usleep 500000
    local before=$(rows_told)
    usleep 1000000
    [ -e /proc/$(cat /tmp/writer_of_rows)/exe ] && [ $(rows_told) = $before ]
}

ended() {
    wait $(cat /tmp/writer_of_rows) && wait $(cat /tmp/writer_of_files)
}

killed_to_its_end() {
    write_rows wal $(next_row) 100000 &
    echo $! >/tmp/writer_of_rows
    killed_at 190
}

given_up() {
    timeout 30 larder block ublk --remove 0 && await 20 gone /dev/ublkb0
}

replayed() {
    mount -t ext4 /dev/ublkb0 /fs && umount /fs && e2fsck -fn /dev/ublkb0 && mount -t ext4 /dev/ublkb0 /fs
}

mkdir -p /fs
step created larder block create block:/dev/nvme0n1 --core block:/dev/nvme0n2 --mode wb
step started start
step queues queues
step mkfs mkfs.ext4 -q -b 4096 /dev/ublkb0
step mount mount -t ext4 /dev/ublkb0 /fs
step tables made_tables
step first_rows write_rows delete 1 20
step writers_begin writers
step rows_at_kill killed_at 40
step waiting larder block status block:/dev/nvme0n1
step waits waits
step again start
step queues_again queues
step killed_again killed_at 90
step waits_again waits
step third start
step writers ended
step rows rows_right
step files files_right

step rows_at_last_kill killed_to_its_end
step given_up given_up
step number_in_use larder block start block:/dev/nvme0n1 --ublk 0 --control /tmp/c
step writer wait $(cat /tmp/writer_of_rows)
step unmounted umount /fs
step fourth start
step core_alone e2fsck -fn /dev/nvme0n2
step replayed replayed
step rows_replayed rows_right
step files_replayed files_right
step rows_more write_rows delete $(next_row) $(($(next_row) + 9))
step last_unmounted umount /fs
step stopped larder block stop --flush --control /tmp/c
step ended wait $(cat /tmp/pid)
step core_sound e2fsck -fn /dev/nvme0n2
step core_mounted mount -t ext4 -o ro /dev/nvme0n2 /fs
step files_of_core files_right
step rows_of_core rows_right
