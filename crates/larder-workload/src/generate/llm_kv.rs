//! The generator `llm-kv`: attention keys and values of prompts, kept for the next prompt that begins with the same
//! tokens.
//!
//! A chat begins with one of a number of prefixes (a system prompt, a document, tools). Prefixes are popular by Zipf's
//! law, and their blocks do not expire. Each turn of a chat requests all blocks of the prefix and of the earlier turns,
//! in order, and then stores the blocks of the new text, which live for an hour. Some chats go on with another turn.

use std::collections::VecDeque;

use crate::hash::mix;
use crate::{Error, Op, Request, RequestSource};

use super::convert::spread;
use super::parameters::{Parameters, time_s};
use super::popularity::happens;
use super::records::ZIPF;
use super::zipf::ZipfMandelbrot;

/// Turns a second: 23,608 requests in an hour (traces of Mooncake, `FAST'25`, which have all timestamps).
const TURNS_PER_S: f64 = 23_608.0 / 3600.0;
/// Blocks of a prefix, and blocks of the new text in a turn; a block has 256 tokens, the default of `LMCache`. With
/// [`ANOTHER_TURN`] a prompt has 30 blocks on average, and 15 of them existed before. Mooncake (arXiv 2407.00079, §4.2)
/// reports prompts of 7,590 tokens, and finds half of the blocks with a cache that is large enough.
const PREFIX_BLOCKS: (u64, u64) = (5, 15);
const NEW_BLOCKS: (u64, u64) = (5, 25);
const ANOTHER_TURN: f64 = 0.25;
/// Number of prefixes if the parameters do not give one. Assumed.
const PREFIXES: u64 = 1000;
/// Chats in progress at the same time: the turns of one are a minute and a half apart. Assumed.
const CHATS: u64 = 512;
/// The longest block: 256 tokens of 128 KiB each, as for a model of 8 billion weights with 32 layers and 8 heads of
/// 128. Smaller models have blocks of a half of this, a quarter, and so on; each prefix belongs to one model.
const BLOCK_BYTES: u32 = 32 << 20;
const BLOCK_SIZES: u64 = 6;
/// The key is a hash of all tokens up to the end of the block, in hexadecimal.
const KEY_BYTES: u32 = 64;
/// Time until a chat's block expires. Assumed.
const CHAT_TTL_S: u32 = 3600;

/// A chat: its prefix, and the number of its own blocks so far.
#[derive(Clone, Copy)]
struct Chat {
    number: u64,
    prefix: u64,
    blocks: u64,
}

/// See the module.
pub(super) struct LlmKv {
    popular: ZipfMandelbrot,
    block_bytes_max: u32,
    salt: u64,
    rng: fastrand::Rng,
    requests: u64,
    done: u64,
    chats: Vec<Chat>,
    begun: u64,
    turns: u64,
    turn: VecDeque<Request>,
}

impl LlmKv {
    pub(super) fn new(parameters: &Parameters, requests: u64, seed: u64) -> Self {
        Self {
            popular: ZipfMandelbrot::new(parameters.records.unwrap_or(PREFIXES), 0.0, ZIPF),
            block_bytes_max: parameters.bytes.unwrap_or(BLOCK_BYTES),
            salt: mix(seed, 0x006c_6c6d),
            rng: fastrand::Rng::with_seed(seed),
            requests,
            done: 0,
            chats: Vec::new(),
            begun: 0,
            turns: 0,
            turn: VecDeque::new(),
        }
    }

    fn begin_chat(&mut self) -> Chat {
        self.begun += 1;
        Chat { number: self.begun, prefix: self.popular.draw(&mut self.rng), blocks: 0 }
    }

    /// Queues the requests of one turn of a chat.
    fn take_turn(&mut self) {
        let at = spread(self.rng.u64(..), CHATS);
        let at = usize::try_from(at).unwrap_or(0).min(self.chats.len());
        if at == self.chats.len() {
            let chat = self.begin_chat();
            self.chats.push(chat);
        }
        let mut chat = self.chats[at];
        let time_s = time_s(self.turns, TURNS_PER_S);
        self.turns += 1;
        let model = mix(self.salt ^ chat.prefix, 3);
        let size = self.block_bytes_max >> spread(model, BLOCK_SIZES);
        let of_prefix = between(PREFIX_BLOCKS, mix(self.salt ^ chat.prefix, 4));
        for block in 0..of_prefix {
            let key = mix(mix(self.salt, chat.prefix), block);
            self.turn.push_back(request(key, size, Op::Get, 0, time_s));
        }
        let new = between(NEW_BLOCKS, self.rng.u64(..));
        for block in 0..chat.blocks + new {
            let op = if block < chat.blocks { Op::Get } else { Op::Set };
            let key = mix(mix(self.salt ^ 1, chat.number), block);
            self.turn.push_back(request(key, size, op, CHAT_TTL_S, time_s));
        }
        chat.blocks += new;
        self.chats[at] =
            if happens(&mut self.rng, ANOTHER_TURN) { chat } else { self.begin_chat() };
    }
}

fn request(key: u64, size: u32, op: Op, ttl_s: u32, time_s: u32) -> Request {
    Request { time_s, key, key_bytes: KEY_BYTES, value_bytes: size.max(1), op, ttl_s }
}

/// A number in this range, both ends included.
fn between((first, last): (u64, u64), hash: u64) -> u64 {
    first + spread(hash, last - first + 1)
}

impl RequestSource for LlmKv {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.done == self.requests {
            return Ok(None);
        }
        self.done += 1;
        while self.turn.is_empty() {
            self.take_turn();
        }
        Ok(self.turn.pop_front())
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.requests.max(1) as f64)
    }
}
