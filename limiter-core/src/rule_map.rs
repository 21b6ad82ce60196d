//! What a limiter keeps for each rule that it has met.

use once_cell::sync::OnceCell;

use crate::Rule;

/// A table of chains. It only ever grows, so that looking a rule up takes no lock.
pub(crate) struct RuleMap<T> {
    chains: Box<[Link<T>]>,
}

type Link<T> = OnceCell<Box<Met<T>>>;

struct Met<T> {
    rule: Rule,
    kept: T,
    next: Link<T>,
}

const CHAINS: usize = 256;

impl<T> RuleMap<T> {
    pub(crate) fn new() -> Self {
        Self { chains: (0..CHAINS).map(|_| Link::new()).collect() }
    }

    /// What is kept for `rule`, made where it is new.
    pub(crate) fn get(&self, rule: &Rule, make: impl Fn(&Rule) -> T) -> &T {
        &self.met(rule, make).kept
    }

    fn met(&self, rule: &Rule, make: impl Fn(&Rule) -> T) -> &Met<T> {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let mut link = &self.chains[rule.fingerprint() as usize % CHAINS];
        loop {
            let met = link
                .get_or_init(|| Box::new(Met { rule: rule.clone(), kept: make(rule), next: Link::new() }));
            if met.rule == *rule {
                return met;
            }
            link = &met.next;
        }
    }
}

impl RuleMap<()> {
    /// The same rule, as long as this map is there.
    pub(crate) fn rule(&self, rule: &Rule) -> &Rule {
        &self.met(rule, |_| ()).rule
    }
}

/// A chain is taken apart link by link: dropping the first would recurse through them all.
impl<T> Drop for RuleMap<T> {
    fn drop(&mut self) {
        for chain in &mut self.chains {
            let mut next = chain.take();
            while let Some(mut met) = next {
                next = met.next.take();
            }
        }
    }
}
