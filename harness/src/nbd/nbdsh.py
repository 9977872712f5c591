# Tests requests that the tools do not make, with libnbd, which checks every reply against the protocol.
import sys

import nbd

# The export, its name, and the contexts that it has.
uri, own_name, *own_contexts = sys.argv[1:]
checks = 0


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"does not hold: {what}")


def connect(**how):
    handle = nbd.NBD()
    # Send invalid requests instead of refusing them in the client.
    handle.set_strict_mode(0)
    for name, value in how.items():
        getattr(handle, name)(value)
    handle.connect_uri(uri)
    return handle


def fails_with(code, call, what):
    try:
        call()
    except nbd.Error as error:
        check(error.errno == code, f"{what}: {error}")
    else:
        check(False, f"{what} succeeds")


h = connect(add_meta_context="base:allocation")
size = h.get_size()
check(size == 64 << 20, "size")
check(h.get_structured_replies_negotiated(), "structured replies")
check(h.can_meta_context("base:allocation"), "base:allocation")

# Lengths and offsets that are not multiples of a block.
h.pwrite(b"abc" * 1000, 4095)
check(h.pread(3000, 4095) == bytearray(b"abc" * 1000), "3000 bytes at 4095")
check(h.pread(1, 4094) == bytearray(1), "the byte before")
h.pwrite(b"x", size - 1, nbd.CMD_FLAG_FUA)
check(h.pread(1, size - 1) == bytearray(b"x"), "the last byte")
h.zero(100, 4100, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
check(h.pread(102, 4099) == bytearray(b"b") + bytearray(100) + bytearray(b"a"), "zeros in between")
h.trim(1 << 20, 1 << 20, nbd.CMD_FLAG_FUA)
h.flush()
h.pread(65536, 0, nbd.CMD_FLAG_DF)

# Chunks of a structured read.
chunks = []
h.pread_structured(8192, 4096, lambda data, at, status, error: chunks.append((at, len(data))))
check(sum(length for _, length in chunks) == 8192, "chunks cover the read")

# Block status, of one extent and of all.
for flags in (0, nbd.CMD_FLAG_REQ_ONE):
    extents = []
    h.block_status(size, 0, lambda context, at, found, error: extents.extend(found), flags)
    check(0 < sum(extents[::2]) <= size, "extents")

# An impossible request gets its error, and the next request is served.
fails_with("EINVAL", lambda: h.pread(4096, size - 1), "read behind the end")
fails_with("ENOSPC", lambda: h.pwrite(b"xy", size - 1), "write behind the end")
fails_with("ENOSPC", lambda: h.zero(2, size - 1), "zeros behind the end")
fails_with("EINVAL", lambda: h.trim(2, size - 1), "trim behind the end")
fails_with("EINVAL", lambda: h.pread(0, 0), "read of nothing")
fails_with("ENOTSUP", lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO), "fast zeros")
# Only an export with a cache supports caching.
if h.can_cache():
    h.cache(4096, 0)
else:
    fails_with("ENOTSUP", lambda: h.cache(4096, 0), "cache")
fails_with("EINVAL", lambda: h.pread(512, 0, 1 << 9), "a flag that there is not")
check(h.pread(3, 4095) == bytearray(b"abc"), "served after errors")

# Many requests in flight, which complete in any order.
count = 500
buffers = [nbd.Buffer.from_bytearray(bytearray([n % 251] * 4096)) for n in range(count)]
for n, buffer in enumerate(buffers):
    h.aio_pwrite(buffer, n * 4096)
while h.aio_in_flight() > 0:
    h.poll(-1)
results = [nbd.Buffer(4096) for _ in range(count)]
cookies = [h.aio_pread(result, n * 4096) for n, result in enumerate(results)]
while h.aio_in_flight() > 0:
    h.poll(-1)
for n, (cookie, result) in enumerate(zip(cookies, results)):
    check(h.aio_command_completed(cookie), f"read {n}")
    check(result.to_bytearray() == bytearray([n % 251] * 4096), f"content {n}")

# A flush on another connection covers the writes of this one; both see the same data.
other = connect(set_request_structured_replies=False)
check(not other.get_structured_replies_negotiated(), "simple replies")
check(other.can_multi_conn(), "several connections")
h.pwrite(b"one", 9 << 20)
other.flush()
check(other.pread(3, 9 << 20) == bytearray(b"one"), "seen on the other connection")

# The oldest negotiation.
old = connect(set_handshake_flags=0)
check(old.get_size() == size and old.pread(3, 9 << 20) == bytearray(b"one"), "without flags")

# A name that does not exist.
lost = nbd.NBD()
try:
    lost.connect_uri(uri.replace(f"/{own_name}?", "/attic?"))
    check(False, "an export that there is not")
except nbd.Error:
    checks += 1

# By options.
lister = nbd.NBD()
lister.set_opt_mode(True)
lister.connect_uri(uri)
names = []
lister.opt_list(lambda name, description: names.append(name))
check(names == [own_name], f"listed: {names}")
contexts = []
lister.opt_list_meta_context(contexts.append)
check(contexts == own_contexts, f"contexts: {contexts}")
lister.set_export_name("attic")
fails_with("ENOENT", lister.opt_info, "information on an export that there is not")
lister.set_export_name(own_name)
lister.opt_info()
check(lister.get_canonical_export_name() == own_name, "its name") if lister.get_full_info() else None
check(lister.get_block_size(nbd.SIZE_PREFERRED) == 4096, "preferred block")
lister.opt_go()
check(lister.pread(3, 9 << 20) == bytearray(b"one"), "served after all that")

for handle in (h, other, old, lister):
    handle.shutdown()
print(f"{checks} checks")
