//! What the client knows of each object: the last version, its size and when it expires. Every hit is checked against
//! it.

/// Number of a key.
pub(super) type Key = u32;

/// The last version of an object.
#[derive(Clone, Copy, Default, Debug)]
struct Object {
    /// Grows with each SET and each delete.
    version: u32,
    /// Bytes of key and value.
    bytes: u16,
    /// Second at which it expires; 0 is never.
    expires_s: u32,
}

/// All objects, and the time.
pub(super) struct Objects {
    list: Vec<Object>,
    now_s: u32,
}

impl Objects {
    pub(super) fn new(keys: usize) -> Self {
        Self { list: vec![Object::default(); keys], now_s: 0 }
    }

    pub(super) fn advance_to(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
    }

    /// The client stores a new version.
    pub(super) fn set(&mut self, key: Key, bytes: u16, ttl_s: u32) {
        let now_s = self.now_s;
        let object = &mut self.list[key as usize];
        object.version += 1;
        object.bytes = bytes;
        object.expires_s = if ttl_s == 0 { 0 } else { now_s.saturating_add(ttl_s).max(1) };
    }

    /// The client deletes the object: all versions are old.
    pub(super) fn delete(&mut self, key: Key) {
        self.list[key as usize].version += 1;
    }

    pub(super) fn version(&self, key: Key) -> u32 {
        self.list[key as usize].version
    }

    pub(super) fn bytes(&self, key: Key) -> u16 {
        self.list[key as usize].bytes
    }

    pub(super) fn is_expired(&self, key: Key) -> bool {
        let at = self.list[key as usize].expires_s;
        at != 0 && at <= self.now_s
    }
}
