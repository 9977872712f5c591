//! The handshake: selects the export, and the replies that a client understands. Bytes in, bytes and a decision out.
//!
//! ```text
//!   greeting ─► flags ─► option … option ─► NBD_OPT_GO or NBD_OPT_EXPORT_NAME ─► requests
//! ```
//!
//! A server with a certificate answers nothing else before `NBD_OPT_STARTTLS` (`FORCEDTLS`): an eavesdropper does not
//! even learn names. So nothing agreed before it can count after it, and no input may have arrived together with it.
//!
//! An option that is not understood is refused, and the handshake goes on. The connection ends if the protocol has no
//! reply for it (`NBD_OPT_EXPORT_NAME`), or if the input after it could not be parsed. An option takes at most
//! [`OPTION_BYTES_MAX`] of memory, whatever length it states; a longer one is skipped and refused.

use std::sync::Arc;

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::contexts::{self, Naming, SelectedContexts};
use super::exports::{Export, Exports};
use super::fields::{Fields, Malformed, text};
use super::wire::{
    EXPORT_NAME_ZEROES, ExportNameReply, GREETING_MAGIC, Greeting, InfoBlockSize, InfoExport,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, OptionReply, handshake, info, len32, option,
    option_reply,
};

/// Longest option that is read, in bytes.
pub(crate) const OPTION_BYTES_MAX: usize = 32 << 10;
/// Most options of a handshake.
const OPTIONS_MAX: u32 = 4096;

/// The state of a handshake.
#[derive(Debug)]
pub(crate) struct Negotiation {
    exports: Exports,
    stage: Stage,
    encryption: Encryption,
    needs_zeroes: bool,
    is_structured: bool,
    /// The contexts that were selected for an export.
    chosen: SelectedContexts,
    options: u32,
}

/// Whether a client must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// TLS is not available.
    Unavailable,
    /// The client must use TLS and has not begun it yet.
    Required,
    /// The client uses TLS.
    Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Flags,
    Options,
    /// This number of bytes of a refused option follows.
    Skipping(u64),
}

/// The result of processing some input.
#[derive(Debug)]
pub(crate) enum Step {
    /// More input is needed.
    Waits,
    /// This number of bytes was processed.
    GoesOn(usize),
    /// This number of bytes was processed; requests follow.
    Agreed(usize, Agreement),
    /// This number of bytes was processed; after the output was sent, a TLS handshake follows.
    Encrypts(usize),
    /// The connection ends after the output was sent.
    Ends,
}

/// What the two sides have agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(super) export: Arc<Export>,
    pub(super) is_structured: bool,
    pub(super) contexts: Vec<contexts::NumberedContext>,
}

impl Negotiation {
    /// Begins a handshake, and writes the greeting to `output`.
    pub(crate) fn begin(exports: Exports, encryption: Encryption, output: &mut Vec<u8>) -> Self {
        let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        let greeting = Greeting {
            magic: U64::new(GREETING_MAGIC),
            option_magic: U64::new(OPTION_MAGIC),
            flags: U16::new(flags),
        };
        output.extend_from_slice(greeting.as_bytes());
        let (chosen, options) = (SelectedContexts::default(), 0);
        Self {
            exports,
            stage: Stage::Flags,
            encryption,
            needs_zeroes: true,
            is_structured: false,
            chosen,
            options,
        }
    }

    /// Processes the beginning of `input`, and appends the answer to `output`.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut Vec<u8>) -> Step {
        match self.stage {
            Stage::Flags => self.flags(input),
            Stage::Options => self.option(input, output),
            Stage::Skipping(left) => {
                let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let left = left - skipped as u64;
                self.stage = if left == 0 { Stage::Options } else { Stage::Skipping(left) };
                if skipped == 0 { Step::Waits } else { Step::GoesOn(skipped) }
            }
        }
    }

    fn flags(&mut self, input: &[u8]) -> Step {
        let Ok((flags, _)) = U32::read_from_prefix(input) else { return Step::Waits };
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if flags.get() & !known != 0 {
            // Unknown flags: both sides would rely on them.
            return Step::Ends;
        }
        self.needs_zeroes = flags.get() & u32::from(handshake::NO_ZEROES) == 0;
        self.stage = Stage::Options;
        Step::GoesOn(size_of::<U32>())
    }

    fn option(&mut self, input: &[u8], output: &mut Vec<u8>) -> Step {
        let Ok((header, rest)) = OptionHeader::read_from_prefix(input) else { return Step::Waits };
        if header.magic.get() != OPTION_MAGIC || self.options == OPTIONS_MAX {
            return Step::Ends;
        }
        let (option, bytes) = (header.option.get(), header.bytes.get());
        let Some(len) = usize::try_from(bytes).ok().filter(|len| *len <= OPTION_BYTES_MAX) else {
            if option == option::EXPORT_NAME {
                return Step::Ends;
            }
            self.options += 1;
            refuse(output, option, option_reply::ERR_TOO_BIG, "longer than 32 KiB");
            self.stage = Stage::Skipping(u64::from(bytes));
            return Step::GoesOn(OptionHeader::BYTES);
        };
        let Some(content) = rest.get(..len) else { return Step::Waits };
        self.options += 1;
        self.answer(option, content, OptionHeader::BYTES + len, output)
    }

    fn answer(&mut self, option: u32, content: &[u8], used: usize, output: &mut Vec<u8>) -> Step {
        if self.encryption == Encryption::Required {
            match option {
                option::STARTTLS | option::ABORT => {}
                // This option cannot be refused.
                option::EXPORT_NAME => return Step::Ends,
                _ => {
                    refuse(
                        output,
                        option,
                        option_reply::ERR_TLS_REQD,
                        "this server wants TLS first",
                    );
                    return Step::GoesOn(used);
                }
            }
        }
        let answered = match option {
            option::EXPORT_NAME => {
                return match self.export_name(content, output) {
                    Some(agreement) => Step::Agreed(used, agreement),
                    None => Step::Ends,
                };
            }
            option::ABORT => {
                acknowledge(output, option);
                return Step::Ends;
            }
            option::GO => match self.describe(option, content, output) {
                Ok(export) => return Step::Agreed(used, self.agreement(export)),
                Err(refusal) => Err(refusal),
            },
            option::INFO => self.describe(option, content, output).map(drop),
            option::LIST => self.list(content, output),
            option::STRUCTURED_REPLY => {
                Fields::of(content).end().map_err(OptionRefusal::from).map(|()| {
                    self.is_structured = true;
                    acknowledge(output, option);
                })
            }
            option::LIST_META_CONTEXT => self.contexts(option, content, output).map(drop),
            option::SET_META_CONTEXT => {
                // Whatever the result is, the previous selection no longer counts.
                self.chosen = SelectedContexts::default();
                self.contexts(option, content, output).map(|chosen| self.chosen = chosen)
            }
            option::STARTTLS => match self.start_tls(content) {
                Ok(()) => {
                    acknowledge(output, option);
                    return Step::Encrypts(used);
                }
                Err(refusal) => Err(refusal),
            },
            _ => Err(OptionRefusal(option_reply::ERR_UNSUP, "no such option here")),
        };
        if let Err(OptionRefusal(reply, why)) = answered {
            refuse(output, option, reply, why);
        }
        Step::GoesOn(used)
    }

    /// Nothing was agreed before: all other options were refused.
    fn start_tls(&mut self, content: &[u8]) -> Result<(), OptionRefusal> {
        Fields::of(content).end()?;
        match self.encryption {
            Encryption::Unavailable => Err(OptionRefusal(option_reply::ERR_UNSUP, "no TLS here")),
            Encryption::Begun => {
                Err(OptionRefusal(option_reply::ERR_INVALID, "this is TLS already"))
            }
            Encryption::Required => {
                self.encryption = Encryption::Begun;
                Ok(())
            }
        }
    }

    /// The oldest way to choose an export. It cannot be refused.
    fn export_name(&mut self, content: &[u8], output: &mut Vec<u8>) -> Option<Agreement> {
        let name = text(content).ok()?;
        let export = self.exports.find(name)?;
        let size = U64::new(export.volume().info().size_bytes);
        let flags = U16::new(export.flags(self.is_structured));
        output.extend_from_slice(ExportNameReply { size, flags }.as_bytes());
        if self.needs_zeroes {
            output.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Some(self.agreement(export))
    }

    /// Sends the requested information about an export.
    fn describe(
        &self,
        option: u32,
        content: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Arc<Export>, OptionRefusal> {
        let mut fields = Fields::of(content);
        let name = fields.string()?;
        let mut wants = Vec::new();
        for _ in 0..fields.u16()? {
            wants.push(fields.u16()?);
        }
        fields.end()?;
        let export = self.find(name)?;
        let about = export.volume().info();
        let size = U64::new(about.size_bytes);
        let flags = U16::new(export.flags(self.is_structured));
        let kind = U16::new(info::EXPORT);
        reply(output, option, option_reply::INFO, &[InfoExport { kind, size, flags }.as_bytes()]);
        let limits = export.limits(self.is_structured, false);
        let sizes = InfoBlockSize {
            kind: U16::new(info::BLOCK_SIZE),
            min: U32::new(about.blocks.min),
            preferred: U32::new(about.blocks.preferred),
            max: U32::new(limits.payload_bytes_max),
        };
        reply(output, option, option_reply::INFO, &[sizes.as_bytes()]);
        let texts = [(info::NAME, export.name()), (info::DESCRIPTION, export.description())];
        for (kind, text) in texts {
            if wants.contains(&kind) {
                let kind = U16::new(kind);
                let parts = [kind.as_bytes(), text.as_bytes()];
                reply(output, option, option_reply::INFO, &parts);
            }
        }
        acknowledge(output, option);
        Ok(export)
    }

    fn list(&self, content: &[u8], output: &mut Vec<u8>) -> Result<(), OptionRefusal> {
        Fields::of(content).end()?;
        for export in self.exports.all() {
            let name = export.name().as_bytes();
            let bytes = len32(name.len());
            let parts = [bytes.as_bytes(), name, export.description().as_bytes()];
            reply(output, option::LIST, option_reply::SERVER, &parts);
        }
        acknowledge(output, option::LIST);
        Ok(())
    }

    /// Replies with the contexts of an export that the queries name: to list them, or to select them.
    fn contexts(
        &self,
        option: u32,
        content: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<SelectedContexts, OptionRefusal> {
        if !self.is_structured {
            return Err(OptionRefusal(
                option_reply::ERR_INVALID,
                "ask for structured replies first",
            ));
        }
        let mut fields = Fields::of(content);
        let name = fields.string()?;
        let mut queries = Vec::new();
        for _ in 0..fields.u32()? {
            queries.push(fields.string()?);
        }
        fields.end()?;
        let export = self.find(name)?;
        let naming = if option == option::SET_META_CONTEXT { Naming::One } else { Naming::Any };
        let found = contexts::named(&export.volume().info().contexts, &queries, naming);
        for (number, context) in &found {
            let number = U32::new(*number);
            let parts = [number.as_bytes(), context.name().as_bytes()];
            reply(output, option, option_reply::META_CONTEXT, &parts);
        }
        acknowledge(output, option);
        Ok(SelectedContexts::of(&export, found))
    }

    fn find(&self, name: &str) -> Result<Arc<Export>, OptionRefusal> {
        let found = self.exports.find(name);
        found.ok_or(OptionRefusal(option_reply::ERR_UNKNOWN, "no export has this name"))
    }

    fn agreement(&mut self, export: Arc<Export>) -> Agreement {
        let contexts = std::mem::take(&mut self.chosen).of_export(&export);
        Agreement { export, is_structured: self.is_structured, contexts }
    }
}

/// The reply with which an option is refused, and the reason.
#[derive(Clone, Copy, Debug)]
struct OptionRefusal(u32, &'static str);

impl From<Malformed> for OptionRefusal {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Invalid => Self(option_reply::ERR_INVALID, "the option is malformed"),
            Malformed::TooBig => Self(option_reply::ERR_TOO_BIG, "a string is too long"),
        }
    }
}

fn acknowledge(output: &mut Vec<u8>, option: u32) {
    reply(output, option, option_reply::ACK, &[]);
}

fn refuse(output: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    reply(output, option, kind, &[why.as_bytes()]);
}

fn reply(output: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let header = OptionReply {
        magic: U64::new(OPTION_REPLY_MAGIC),
        option: U32::new(option),
        reply: U32::new(kind),
        bytes: len32(parts.iter().map(|part| part.len()).sum()),
    };
    output.extend_from_slice(header.as_bytes());
    parts.iter().for_each(|part| output.extend_from_slice(part));
}
