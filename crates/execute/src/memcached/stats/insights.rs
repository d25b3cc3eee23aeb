//! `stats mrc`, `stats misses`, `stats hotkeys` and `stats compression`: what the engine knows of
//! requests and values.

use std::sync::Arc;

use cellar_engine::{HotKey, MissRatioCurve};
use cellar_protocol::memcached::reply::{self, stat};
use cellar_shared::auth::users::User;
use cellar_shared::keyspace::compression;

use super::Figures;
use crate::context::Context;

/// Keys that `stats hotkeys` shows.
const HOT_KEYS_MAX: usize = 20;

/// stats mrc: the reads since the last reset, and how many would have missed at each memory size.
pub(super) fn curve(context: Context<'_>, out: &mut Vec<u8>) {
    let state = context.state;
    let zero = state.statistics.zero().curve;
    let curve = state.cache.miss_ratio_curve().since(&zero);
    stat(out, "mrc:gets", curve.gets);
    let ratios = curve.miss_ratios();
    for ((factor, point), ratio) in MissRatioCurve::FACTORS.iter().zip(curve.points).zip(ratios) {
        stat(
            out,
            &format!("mrc:{factor}x:memory_bytes"),
            point.memory_bytes,
        );
        stat(out, &format!("mrc:{factor}x:misses"), point.misses);
        let name = format!("mrc:{factor}x:miss_ratio");
        stat(out, &name, format_args!("{ratio:.4}"));
    }
}

/// stats misses: why reads missed since the last reset.
pub(super) fn misses(figures: &Figures, out: &mut Vec<u8>) {
    let engine = &figures.engine;
    stat(out, "misses:all", engine.misses);
    stat(out, "misses:never_stored", engine.missed_never_stored);
    stat(out, "misses:expired", engine.missed_expired);
    stat(out, "misses:evicted", engine.missed_evicted);
    stat(out, "misses:deleted", engine.missed_deleted);
}

/// stats hotkeys: the keys read most in the last minute or so, percent-encoded. A limited user sees
/// those that it may use.
pub(super) fn hot_keys(user: Option<&Arc<User>>, context: Context<'_>, out: &mut Vec<u8>) {
    let hottest = context.cache().hottest_keys(HOT_KEYS_MAX);
    let space = context.state.shared_space();
    let is_its = |user: &Arc<User>, hot: &HotKey| hot.space == space && user.may_use(&hot.key);
    let shown = hottest
        .iter()
        .filter(|hot| user.is_none_or(|user| is_its(user, hot)));
    for (place, hot) in (1..).zip(shown) {
        let mut key = Vec::new();
        reply::percent_escaped(&mut key, &hot.key);
        let key = String::from_utf8_lossy(&key);
        stat(out, &format!("hotkeys:{place}:key"), key);
        let per_s = format_args!("{:.1}", hot.gets_per_s);
        stat(out, &format!("hotkeys:{place}:gets_per_s"), per_s);
        let share = format_args!("{:.4}", hot.share);
        stat(out, &format!("hotkeys:{place}:share"), share);
    }
}

/// stats compression: the sampled key prefixes, percent-encoded, the largest savings first. A
/// limited user sees the prefixes of which it may use all keys.
pub(super) fn compression(user: Option<&Arc<User>>, context: Context<'_>, out: &mut Vec<u8>) {
    let (cache, databases) = (context.cache(), &context.state.databases);
    let prefixes = compression::prefixes(cache, databases, user.map(|user| &**user));
    for (place, one) in (1..).zip(prefixes) {
        let mut prefix = Vec::new();
        reply::percent_escaped(&mut prefix, &one.prefix);
        let prefix = String::from_utf8_lossy(&prefix);
        stat(out, &format!("compression:{place}:prefix"), prefix);
        stat(out, &format!("compression:{place}:database"), one.database);
        let is_compressed = u8::from(one.is_compressed);
        stat(
            out,
            &format!("compression:{place}:compressed"),
            is_compressed,
        );
        if let Some(ratio) = one.ratio {
            let ratio = format_args!("{ratio:.4}");
            stat(out, &format!("compression:{place}:ratio"), ratio);
        }
    }
}
