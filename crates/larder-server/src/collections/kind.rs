//! Kinds of collections: their flags and names, and what all have.

/// The flags of collections, of all kinds that may ever be, are this and a number from 1 to 255.
const FLAGS: u32 = 0x4c61_7200;

/// The kind of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hash = 1,
    Set = 2,
    SortedSet = 3,
    List = 4,
}

/// What an item is, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// A plain value.
    String,
    Collection(Kind),
    /// A collection of a kind that this version does not know.
    Unknown,
}

/// The bytes are no collection of the kind that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

impl Kind {
    /// The flags of an item that is such a collection.
    pub(crate) fn flags(self) -> u32 {
        FLAGS | u32::from(self.number())
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::Hash => 1,
            Self::Set => 2,
            Self::SortedSet => 3,
            Self::List => 4,
        }
    }

    /// Its name in the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::List => "list",
        }
    }
}

impl ItemKind {
    /// The kind of an item with these flags.
    pub(crate) fn of(flags: u32) -> Self {
        if flags & !0xff != FLAGS || flags == FLAGS {
            return Self::String;
        }
        match flags & 0xff {
            1 => Self::Collection(Kind::Hash),
            2 => Self::Collection(Kind::Set),
            3 => Self::Collection(Kind::SortedSet),
            4 => Self::Collection(Kind::List),
            _ => Self::Unknown,
        }
    }

    /// Its name in the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Collection(kind) => kind.name(),
            Self::Unknown => "unknown",
        }
    }
}
