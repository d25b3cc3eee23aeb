//! Queues of entry numbers, from which any number can be taken out.
//!
//! Doubly linked by number, in one array, so a number costs eight bytes in any queue.

/// No number; also the first that cannot be used.
pub(super) const NONE: u32 = u32::MAX >> 1;
/// The uppermost bit of each word of a [`QueueLink`]: both together encode the queue.
const MARK: u32 = !NONE;

/// Which of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// In small, taken in so lately that hits do not count.
    Young,
    /// In small.
    Grown,
    Main,
}

/// All of them, by their encoding.
const ALL: [Which; 3] = [Which::Young, Which::Grown, Which::Main];

#[derive(Clone, Copy, Debug)]
struct QueueLink {
    before: u32,
    next: u32,
}

impl QueueLink {
    fn new(which: Which, before: u32, next: u32) -> QueueLink {
        let (first, second) = (which as u32 & 1, which as u32 >> 1);
        QueueLink {
            before: before | (first * MARK),
            next: next | (second * MARK),
        }
    }

    fn which(self) -> Which {
        let (first, second) = (self.before & MARK != 0, self.next & MARK != 0);
        ALL[usize::from(first) | usize::from(second) << 1]
    }

    fn before(self) -> u32 {
        self.before & NONE
    }

    fn next(self) -> u32 {
        self.next & NONE
    }

    fn set_before(&mut self, number: u32) {
        self.before = self.before & MARK | number;
    }

    fn set_next(&mut self, number: u32) {
        self.next = self.next & MARK | number;
    }
}

/// First and last number, and the weight of all.
#[derive(Debug)]
struct Ends {
    first: u32,
    last: u32,
    weight: u64,
}

/// Queues over the same numbers; each number is in at most one of them.
#[derive(Debug)]
pub(super) struct Queues {
    links: Vec<QueueLink>,
    ends: [Ends; ALL.len()],
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues {
            links: Vec::new(),
            ends: ALL.map(|_| Ends {
                first: NONE,
                last: NONE,
                weight: 0,
            }),
        }
    }

    /// The weight of all numbers in a queue.
    pub(super) fn weight(&self, which: Which) -> u64 {
        self.ends[which as usize].weight
    }

    /// The number that has been in a queue longest.
    pub(super) fn first(&self, which: Which) -> Option<u32> {
        let first = self.ends[which as usize].first;
        (first != NONE).then_some(first)
    }

    /// Appends a number that is in no queue.
    pub(super) fn push(&mut self, which: Which, number: u32, weight: u32) {
        self.make_link(number);
        let ends = &mut self.ends[which as usize];
        let last = std::mem::replace(&mut ends.last, number);
        ends.weight += u64::from(weight);
        match last {
            NONE => ends.first = number,
            _ => self.links[last as usize].set_next(number),
        }
        self.links[number as usize] = QueueLink::new(which, last, NONE);
    }

    /// Takes a number out of its queue.
    pub(super) fn remove(&mut self, number: u32, weight: u32) {
        let link = self.links[number as usize];
        let (before, next) = (link.before(), link.next());
        let ends = &mut self.ends[link.which() as usize];
        ends.weight -= u64::from(weight);
        match before {
            NONE => ends.first = next,
            _ => self.links[before as usize].set_next(next),
        }
        match next {
            NONE => ends.last = before,
            _ => self.links[next as usize].set_before(before),
        }
    }

    /// Changes the weight of a number in a queue.
    pub(super) fn reweigh(&mut self, number: u32, before: u32, weight: u32) {
        let which = self.links[number as usize].which();
        let ends = &mut self.ends[which as usize];
        ends.weight = ends.weight - u64::from(before) + u64::from(weight);
    }

    /// Makes room by an eighth at a time, so that little of it stays unused.
    fn make_link(&mut self, number: u32) {
        let (length, wanted) = (self.links.len(), number as usize + 1);
        if wanted > self.links.capacity() {
            self.links.reserve_exact(wanted - length + length / 8);
        }
        if wanted > length {
            let unused = QueueLink::new(Which::Young, NONE, NONE);
            self.links.resize(wanted, unused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queues: &mut Queues, which: Which) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(number) = queues.first(which) {
            queues.remove(number, 2);
            numbers.push(number);
        }
        numbers
    }

    #[test]
    fn numbers_leave_in_the_order_they_came_whoever_leaves_between() {
        let mut queues = Queues::new();
        for number in 0..10 {
            let which = if number % 3 == 0 {
                Which::Main
            } else {
                Which::Grown
            };
            queues.push(which, number, 2);
        }
        for number in [0, 4, 8] {
            queues.remove(number, 2);
        }
        queues.push(Which::Main, 4, 2);
        assert_eq!(
            (queues.weight(Which::Grown), queues.weight(Which::Main)),
            (8, 8)
        );
        assert_eq!(drain(&mut queues, Which::Grown), [1, 2, 5, 7]);
        assert_eq!(drain(&mut queues, Which::Main), [3, 6, 9, 4]);
        assert_eq!(
            (queues.weight(Which::Grown), queues.weight(Which::Main)),
            (0, 0)
        );
    }

    #[test]
    fn any_number_can_stand_in_any_queue() {
        for which in ALL {
            for number in [0, 1 << 29, 1 << 30, NONE - 1, NONE] {
                let mut link = QueueLink::new(which, number, NONE);
                link.set_next(number);
                let found = (link.which(), link.before(), link.next());
                assert_eq!(found, (which, number, number));
                link.set_before(NONE);
                assert_eq!((link.which(), link.before()), (which, NONE));
            }
        }
    }

    #[test]
    fn a_changed_weight_counts_in_its_queue() {
        let mut queues = Queues::new();
        queues.push(Which::Main, 0, 5);
        queues.reweigh(0, 5, 9);
        assert_eq!(
            (queues.weight(Which::Grown), queues.weight(Which::Main)),
            (0, 9)
        );
        queues.remove(0, 9);
        assert_eq!(queues.weight(Which::Main), 0);
    }
}
