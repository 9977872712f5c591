//! The possible contents of one sector, while changes of it overlap in time.
//!
//! Moments are increasing numbers: one just before a request is sent, one when its reply has arrived. A change takes
//! effect at an unknown moment between the two. So a read may return what any change wrote, except for changes that
//! were lost before the read was sent. A change is lost when
//!
//! - another change that was sent after its reply is answered, or
//! - a read that was sent after its reply returns something else.
//!
//! If a change is lost by the second rule to a change that has no reply, it is lost only while the server lives: a kill
//! may undo that change, even if it has been read. Nothing else can be undone. A change that was cut off by a kill
//! takes effect before the kill or never; so others are not lost to it, unless a read returns it.
//!
//! A lost change is kept only while a read that was sent before the loss is in flight.

/// A moment; `NEVER` is after all others.
pub(super) type Moment = u64;
const NEVER: Moment = Moment::MAX;

/// The content that a change leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Version(u64),
    /// A trim: any version that was sent before its end, but always the same one while the server lives.
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    content: Content,
    sent: Moment,
    /// When its reply had arrived, or its server was gone.
    ended: Moment,
    /// Reads sent from this moment on do not return it.
    lost: Moment,
    /// The same, but only while the server lives.
    overtaken: Moment,
    /// The version that reads have returned for a trim since it ended.
    seen: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    changes: Vec<Change>,
}

impl History {
    /// A sector of zeros.
    pub(super) fn new() -> Self {
        let mut own = Self { changes: Vec::with_capacity(1) };
        own.sent(Content::Version(0), 0);
        own.changes[0].ended = 0;
        own
    }

    /// Records a change that is about to be sent.
    pub(super) fn sent(&mut self, content: Content, at: Moment) {
        let change =
            Change { content, sent: at, ended: NEVER, lost: NEVER, overtaken: NEVER, seen: None };
        self.changes.push(change);
    }

    /// Records the reply to the change that was sent at `sent`. `oldest` is when the oldest read in flight was sent, or
    /// now.
    pub(super) fn answered(&mut self, sent: Moment, now: Moment, oldest: Moment) {
        for change in &mut self.changes {
            if change.sent == sent {
                change.ended = now;
            } else if change.ended < sent {
                change.lost = change.lost.min(now);
            }
        }
        self.changes.retain(|change| change.lost > oldest);
    }

    /// Whether a read that was sent at `sent` and has just returned may have this version; if so, records it.
    pub(super) fn read(&mut self, version: u64, sent: Moment, now: Moment, oldest: Moment) -> bool {
        let is_it = |change: &Change| change.may_bring(version, sent);
        let found = self.changes.iter().filter(|change| is_it(change)).count();
        if found == 0 {
            return false;
        }
        let is_answered = self.changes.iter().filter(|change| is_it(change)).all(Change::has_ended);
        for change in &mut self.changes {
            if change.ended >= sent {
                continue;
            }
            if !change.may_bring(version, sent) {
                let until = if is_answered { &mut change.lost } else { &mut change.overtaken };
                *until = now.min(*until);
            } else if found == 1 && change.content == Content::Any {
                change.seen = Some(version);
            }
        }
        self.changes.retain(|change| change.lost > oldest);
        true
    }

    /// Records that the server is gone, and no read is in flight any more.
    pub(super) fn server_gone(&mut self, now: Moment) {
        self.changes.retain(|change| change.lost == NEVER);
        for change in &mut self.changes {
            change.ended = change.ended.min(now);
            change.overtaken = NEVER;
            change.seen = None;
        }
    }

    /// Records that clients have no access to the sector any more, although the server lives: changes in flight took
    /// effect before or never, and what reads have found remains valid.
    pub(super) fn left(&mut self, now: Moment) {
        for change in &mut self.changes {
            change.ended = change.ended.min(now);
            change.lost = change.lost.min(change.overtaken);
        }
        self.changes.retain(|change| change.lost == NEVER);
    }

    /// The contents that a read sent at that moment may return, in words.
    pub(super) fn expected(&self, sent: Moment) -> String {
        let of = |change: &Change| match (change.content, change.seen) {
            (Content::Version(version), _) => format!("version {version}"),
            (Content::Any, Some(version)) => format!("version {version}, as it was read before"),
            (Content::Any, None) if change.has_ended() => {
                format!("any version up to {}", change.ended)
            }
            (Content::Any, None) => "any version".to_owned(),
        };
        let left = self.changes.iter().filter(|change| change.is_left(sent));
        left.map(of).collect::<Vec<_>>().join(", or ")
    }

    /// Number of recorded changes.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.changes.len()
    }
}

impl Change {
    fn has_ended(&self) -> bool {
        self.ended != NEVER
    }

    fn is_left(&self, sent: Moment) -> bool {
        sent < self.lost.min(self.overtaken)
    }

    /// Whether a read that was sent at `sent` may return this version because of this change.
    fn may_bring(&self, version: u64, sent: Moment) -> bool {
        let fits = match (self.content, self.seen) {
            (Content::Version(own), _) => own == version,
            (Content::Any, None) => version < self.ended,
            (Content::Any, Some(seen)) => seen == version,
        };
        fits && self.is_left(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sector, with a clock.
    #[derive(Clone)]
    struct Sector(History, Moment);

    impl Sector {
        fn new() -> Self {
            Self(History::new(), 0)
        }

        fn now(&mut self) -> Moment {
            self.1 += 1;
            self.1
        }

        fn send(&mut self) -> Moment {
            let now = self.now();
            self.0.sent(Content::Version(now), now);
            now
        }

        fn trim(&mut self) -> Moment {
            let now = self.now();
            self.0.sent(Content::Any, now);
            now
        }

        fn answer(&mut self, sent: Moment) {
            self.answer_while(sent, NEVER);
        }

        /// While a read is in flight.
        fn answer_while(&mut self, sent: Moment, oldest: Moment) {
            let now = self.now();
            self.0.answered(sent, now, oldest.min(now));
        }

        fn write(&mut self) -> Moment {
            let sent = self.send();
            self.answer(sent);
            sent
        }

        /// Whether a read that was sent at `sent` and ends now may return this version.
        fn brings(&mut self, version: u64, sent: Moment) -> bool {
            let now = self.now();
            self.0.read(version, sent, now, now)
        }

        /// The same for a new read.
        fn holds(&mut self, version: u64) -> bool {
            let sent = self.now();
            self.brings(version, sent)
        }

        fn kill(&mut self) {
            let now = self.now();
            self.0.server_gone(now);
        }
    }

    #[test]
    fn what_was_answered_is_there_and_nothing_older() {
        let mut sector = Sector::new();
        assert!(sector.holds(0));
        let (first, second) = (sector.write(), sector.write());
        assert!(!sector.holds(0) && !sector.holds(first), "stale");
        assert!(sector.holds(second));
        sector.kill();
        assert!(!sector.holds(first), "an answer is lost");
        assert!(sector.holds(second));
    }

    #[test]
    fn a_read_returns_a_concurrent_write_or_the_version_before() {
        let mut sector = Sector::new();
        let before = sector.write();
        let (slow, fast) = (sector.send(), sector.send());
        sector.answer(fast);
        for version in [slow, fast] {
            assert!(sector.clone().holds(version), "{version}");
        }
        assert!(!sector.clone().holds(before), "a change behind it was answered");
        let read = sector.now();
        let later = sector.send();
        sector.answer_while(later, read);
        sector.answer_while(slow, read);
        for version in [slow, fast, later] {
            assert!(sector.clone().brings(version, read), "{version}");
        }
        assert!(!sector.clone().holds(fast), "lost to what was sent behind it");
        assert!(
            sector.clone().holds(slow) && sector.clone().holds(later),
            "either may be the last"
        );
    }

    #[test]
    fn what_a_read_has_found_is_not_undone() {
        let mut sector = Sector::new();
        let before = sector.write();
        let change = sector.send();
        let early = sector.now();
        assert!(sector.holds(change));
        assert!(!sector.clone().holds(before), "it was there before the change that was seen");
        assert!(sector.clone().brings(before, early), "a read that was sent before");
        // Even if it was read, it was not answered.
        let mut killed = sector.clone();
        killed.kill();
        assert!(killed.clone().holds(before) && killed.clone().holds(change));
        assert!(killed.holds(before) && !killed.holds(change), "it stays so");
        sector.answer(change);
        sector.kill();
        assert!(!sector.holds(before) && sector.holds(change));
    }

    #[test]
    fn a_read_takes_nothing_from_changes_that_end_after_it_was_sent() {
        let mut sector = Sector::new();
        let change = sector.send();
        assert!(sector.holds(0), "not made yet");
        let read = sector.now();
        sector.answer_while(change, read);
        assert!(sector.brings(0, read), "it was sent before that answer");
        assert!(!sector.holds(0) && sector.holds(change));
    }

    #[test]
    fn what_was_refused_in_order_is_there_or_not_and_what_reads_have_found_stays() {
        let mut sector = Sector::new();
        let before = sector.write();
        let refused = sector.send();
        let left = |sector: &Sector| {
            let mut sector = sector.clone();
            let now = sector.now();
            sector.0.left(now);
            sector
        };
        for version in [before, refused] {
            let mut sector = left(&sector);
            assert!(sector.holds(version));
            assert!([before, refused].into_iter().all(|it| sector.holds(it) == (it == version)));
        }
        assert!(!left(&sector).holds(0), "an answer is lost");
        assert!(sector.holds(refused));
        let mut left_behind = left(&sector);
        left_behind.kill();
        assert!(!left_behind.holds(before), "a kill that comes later undoes nothing of it");
        assert!(!left(&sector).holds(before) && left(&sector).holds(refused));
        let trim = sector.trim();
        sector.answer(trim);
        assert!(sector.holds(before));
        assert!(!left(&sector).holds(0) && left(&sector).holds(before), "as it was read");
    }

    #[test]
    fn of_two_that_overlap_the_one_that_a_read_finds_is_the_later() {
        let mut sector = Sector::new();
        let (one, other) = (sector.send(), sector.send());
        sector.answer(one);
        sector.answer(other);
        sector.kill();
        assert!(sector.holds(one) && !sector.holds(other) && sector.holds(one));
    }

    #[test]
    fn what_a_kill_cuts_off_is_there_or_not_and_stays_so() {
        let mut sector = Sector::new();
        let before = sector.write();
        let lost = [sector.send(), sector.send()];
        sector.kill();
        for version in [before, lost[0], lost[1]] {
            let mut sector = sector.clone();
            assert!(sector.holds(version));
            sector.kill();
            for other in [before, lost[0], lost[1]] {
                assert_eq!(sector.holds(other), other == version, "{other}");
            }
        }
        let after = sector.write();
        assert!(!sector.holds(lost[0]) && sector.holds(after));
    }

    #[test]
    fn a_trim_leaves_anything_that_was_sent_before_its_end_and_always_the_same() {
        let mut sector = Sector::new();
        let before = sector.write();
        let trim = sector.trim();
        let beside = sector.send();
        sector.answer(trim);
        let (end, _) = (sector.1, sector.answer(beside));
        assert!(!sector.holds(end), "of the future");
        assert!(sector.clone().holds(beside) && sector.clone().holds(before));
        assert!(sector.holds(0) && !sector.clone().holds(before) && !sector.clone().holds(beside));
        sector.kill();
        assert!(sector.clone().holds(before) && sector.holds(0));
        let after = sector.write();
        assert!(!sector.holds(0) && sector.holds(after));
    }

    #[test]
    fn what_cannot_be_read_any_more_is_forgotten() {
        let mut sector = Sector::new();
        let mut under_way = std::collections::VecDeque::new();
        for _ in 0..1000 {
            under_way.push_back(sector.send());
            if under_way.len() == 8 {
                let oldest = under_way.pop_front().unwrap();
                sector.answer(oldest);
            }
            assert!(sector.0.len() <= 17, "{}", sector.0.len());
        }
        under_way.into_iter().for_each(|sent| sector.answer(sent));
        sector.write();
        assert_eq!(sector.0.len(), 1);
    }
}
