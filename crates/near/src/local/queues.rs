//! Queues of entry numbers, from which any number can be taken out.
//!
//! Doubly linked by number, in one array, so a number costs eight bytes wherever it stands.

/// No number; also the first that cannot be used.
pub(super) const NONE: u32 = u32::MAX >> 1;
/// The bit of [`QueueLink::before`] that tells which queue.
const SECOND: u32 = 1 << 31;

/// Which of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Small,
    Main,
}

#[derive(Clone, Copy, Debug)]
struct QueueLink {
    before: u32,
    next: u32,
}

/// First and last number, and the weight of all.
#[derive(Debug)]
struct Ends {
    first: u32,
    last: u32,
    weight: u64,
}

/// Two queues over the same numbers; each number stands in one of them at most.
#[derive(Debug)]
pub(super) struct Queues {
    links: Vec<QueueLink>,
    small: Ends,
    main: Ends,
}

impl Queues {
    pub(super) fn new() -> Queues {
        let ends = || Ends {
            first: NONE,
            last: NONE,
            weight: 0,
        };
        Queues {
            links: Vec::new(),
            small: ends(),
            main: ends(),
        }
    }

    /// The weight of all that stands in a queue.
    pub(super) fn weight(&self, which: Which) -> u64 {
        match which {
            Which::Small => self.small.weight,
            Which::Main => self.main.weight,
        }
    }

    /// The number that stands in a queue longest.
    pub(super) fn first(&self, which: Which) -> Option<u32> {
        let first = match which {
            Which::Small => self.small.first,
            Which::Main => self.main.first,
        };
        (first != NONE).then_some(first)
    }

    /// Appends a number that stands in no queue.
    pub(super) fn push(&mut self, which: Which, number: u32, weight: u32) {
        self.make_link(number);
        let ends = self.ends(which);
        let last = std::mem::replace(&mut ends.last, number);
        ends.weight += u64::from(weight);
        match last {
            NONE => ends.first = number,
            _ => self.links[last as usize].next = number,
        }
        let queue = match which {
            Which::Small => 0,
            Which::Main => SECOND,
        };
        self.links[number as usize] = QueueLink {
            before: last | queue,
            next: NONE,
        };
    }

    /// Takes a number out of the queue in which it stands.
    pub(super) fn remove(&mut self, number: u32, weight: u32) {
        let QueueLink { before, next } = self.links[number as usize];
        let which = self.which(number);
        let before = before & !SECOND;
        match before {
            NONE => self.ends(which).first = next,
            _ => self.links[before as usize].next = next,
        }
        match next {
            NONE => self.ends(which).last = before,
            _ => {
                let link = &mut self.links[next as usize];
                link.before = link.before & SECOND | before;
            }
        }
        self.ends(which).weight -= u64::from(weight);
    }

    /// The weight of a number that stands in a queue has changed.
    pub(super) fn reweigh(&mut self, number: u32, before: u32, weight: u32) {
        let ends = self.ends(self.which(number));
        ends.weight = ends.weight - u64::from(before) + u64::from(weight);
    }

    fn which(&self, number: u32) -> Which {
        match self.links[number as usize].before & SECOND {
            0 => Which::Small,
            _ => Which::Main,
        }
    }

    fn ends(&mut self, which: Which) -> &mut Ends {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    /// Makes room by an eighth at a time, so that little of it stays unused.
    fn make_link(&mut self, number: u32) {
        let (length, wanted) = (self.links.len(), number as usize + 1);
        if wanted > self.links.capacity() {
            self.links.reserve_exact(wanted - length + length / 8);
        }
        if wanted > length {
            let unused = QueueLink {
                before: NONE,
                next: NONE,
            };
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
                Which::Small
            };
            queues.push(which, number, 2);
        }
        for number in [0, 4, 8] {
            queues.remove(number, 2);
        }
        queues.push(Which::Main, 4, 2);
        assert_eq!(
            (queues.weight(Which::Small), queues.weight(Which::Main)),
            (8, 8)
        );
        assert_eq!(drain(&mut queues, Which::Small), [1, 2, 5, 7]);
        assert_eq!(drain(&mut queues, Which::Main), [3, 6, 9, 4]);
        assert_eq!(
            (queues.weight(Which::Small), queues.weight(Which::Main)),
            (0, 0)
        );
    }

    #[test]
    fn a_changed_weight_counts_in_its_queue() {
        let mut queues = Queues::new();
        queues.push(Which::Main, 0, 5);
        queues.reweigh(0, 5, 9);
        assert_eq!(
            (queues.weight(Which::Small), queues.weight(Which::Main)),
            (0, 9)
        );
        queues.remove(0, 9);
        assert_eq!(queues.weight(Which::Main), 0);
    }
}
