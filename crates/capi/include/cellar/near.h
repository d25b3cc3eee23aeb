// Cellar's local store and near cache for C. C++ has near.hpp, which is made of this.
//
// Made by cbindgen from crates/capi/src; `make docs` writes it anew. The guide is
// docs/near-cxx.md. What stands below "Safety" is the caller's part: what the library cannot see.
// Rules for all of it:
//
// - Functions return a status; on a failure they tell why in `error`, which may be null.
// - A panic of the library and an exception of yours never cross: the first becomes CELLAR_PANIC,
//   the second must not leave a callback (near.hpp takes care of that).
// - Null pointers, lengths beyond all limits and settings that there are not are CELLAR_BAD_ARGUMENT.
// - Closing and giving back set your pointer to null, and are nothing on null. A copy of a pointer
//   that was closed by another is not seen: whatever uses it is undefined.


#ifndef CELLAR_NEAR_H
#define CELLAR_NEAR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// A time that is not set.
#define CELLAR_UNSET UINT64_MAX

// Room for the text of an error, its end included.
#define CELLAR_TEXT_MAX 252

// Longest key of a local store, in bytes. Servers allow less.
#define CELLAR_KEY_BYTES_MAX 65536

// Largest value that lies in a slot; of a larger one store a pointer.
#define CELLAR_VALUE_BYTES_MAX 4096

// Strictest alignment that a slot has.
#define CELLAR_VALUE_ALIGNMENT_MAX 16

// So far before a value that is its own token stands the count of its holders, 64 bits.
#define CELLAR_COUNT_BEFORE 16

// Most bytes that `cellar_bytes` can have.
#define CELLAR_BYTES_MAX (512 << 20)

// Keys are bytes.
#define CELLAR_KEYS_BYTES 0

// Keys are numbers of 64 bits.
#define CELLAR_KEYS_NUMBERS 1

// Evicts entries that were read only once early; the best unless LRU itself is wanted.
#define CELLAR_S3_FIFO 0

// Evicts the least recently used entry.
#define CELLAR_LRU 1

// The server tells of each key that was read.
#define CELLAR_TRACK_KEYS 0

// The server tells of all keys that begin with the prefix, and remembers none.
#define CELLAR_TRACK_PREFIX 1

// The server tells of nothing; set `local_ttl_ms`.
#define CELLAR_TRACK_OFF 2

// A store in this process. Any thread may use it; `cellar_local_close` ends it.
typedef struct cellar_local cellar_local;

// A cache in front of a server. Any thread may use it; `cellar_near_close` ends it.
typedef struct cellar_near cellar_near;

// Where a codec writes the bytes of a value.
typedef struct cellar_sink cellar_sink;

// How a call ended: one of the `CELLAR_` numbers below.
typedef int32_t cellar_status;

// Why a call failed. Room of the caller's, written only when one fails; may be null everywhere.
typedef struct cellar_error {
  // One of the `CELLAR_` numbers.
  cellar_status status;
  // The error message in English, zero-terminated; a long one is cut.
  char text[CELLAR_TEXT_MAX];
} cellar_error;

// The reference counter of a held value, which the library keeps.
typedef struct cellar_holder {
  // One more holder.
  void (*retain)(const void *token);
  // One less.
  void (*release)(const void *token);
  // There where the value is its own token. Who holds it may then count by itself, by atomic
  // additions to the 64 bits that stand `CELLAR_COUNT_BEFORE` bytes before it: whoever takes the
  // last one away, by a release, calls this instead of `release`.
  void (*end)(const void *token);
  // Whether what it keeps was served out of date.
  bool is_stale;
} cellar_holder;

// A value that the caller holds until it gives it back. All zero: none.
typedef struct cellar_held {
  // The value, for reading, or null.
  const void *value;
  // The holder's handle of the value.
  const void *token;
  // Its holder.
  const struct cellar_holder *holder;
} cellar_held;

// Room for a value that the caller makes. All zero: none.
typedef struct cellar_draft {
  // The room, or null.
  void *slot;
  // The library's own.
  const void *kind;
} cellar_draft;

// A type of values. All zero: the values are `cellar_bytes`.
typedef struct cellar_value_type {
  // Its size, at most `CELLAR_VALUE_BYTES_MAX`.
  size_t size;
  // Its alignment, a power of two and at most `CELLAR_VALUE_ALIGNMENT_MAX`.
  size_t alignment;
  // Ends a value whose last holder is gone, on whichever thread that was; may be null. It must
  // not throw.
  void (*drop)(void *value);
} cellar_value_type;

// How a store is bounded, cut and keyed. `cellar_local_defaults` fills it.
typedef struct cellar_local_options {
  // Most entries; 10,000 by default.
  uint64_t entries_max;
  // If it is not zero, the bound is this many bytes instead: of key, room for the value, 80 for
  // the store itself, and `more_bytes`. Each shard has an equal part of them.
  uint64_t bytes_max;
  // How long an entry lives in milliseconds, or `CELLAR_UNSET`, the default: for ever.
  uint64_t ttl_ms;
  // Into how many parts it is cut; 0, the default, as fits the machine.
  size_t shards;
  // `CELLAR_S3_FIFO`, the default, or `CELLAR_LRU`.
  int32_t policy;
  // `CELLAR_KEYS_BYTES`, the default, or `CELLAR_KEYS_NUMBERS`.
  int32_t keys;
  // The type of its values; all zero, the default: `cellar_bytes`.
  struct cellar_value_type values;
} cellar_local_options;

// A key: bytes, or a number where the store was opened for numbers.
typedef struct cellar_key {
  // The bytes; null where the key is a number, or empty.
  const uint8_t *data;
  // How many bytes; or the number itself.
  uint64_t length;
} cellar_key;

// How a store or near cache is read in one call, whose answer is one register: for loops of hits.
typedef struct cellar_reader {
  // What `get` takes for the store or cache, as long as that is open.
  const void *store;
  // The value of `key`, which is its own token, or null if there is none or something is wrong.
  const void *(*get)(const void *store, struct cellar_key key);
  // The holder of what `get` returns.
  const struct cellar_holder *holder;
} cellar_reader;

// The result of a loader.
typedef struct cellar_loaded {
  // A draft of the store with the value in it. The library takes it.
  struct cellar_draft draft;
  // How long it lives in milliseconds; `CELLAR_UNSET`, which is there at first: as the store's.
  uint64_t ttl_ms;
  // Bytes that the value has outside of its slot; 0 at first.
  uint64_t more_bytes;
} cellar_loaded;

// Makes a value that is missing: fills `made` and returns `CELLAR_OK`, or returns `CELLAR_NONE`,
// or another status and tells in `error` why.
//
// It runs on the thread that called, must not throw, and may use the store for other keys.
typedef cellar_status (*cellar_loader)(void *context,
                                       struct cellar_loaded *made,
                                       struct cellar_error *error);

// Counters and contents of a store.
typedef struct cellar_local_figures {
  // Reads that found a live entry.
  uint64_t hits;
  // Reads that found none.
  uint64_t misses;
  // Values that were stored.
  uint64_t inserts;
  // Values that left because the room was needed.
  uint64_t evictions;
  // Values that left because their time was over.
  uint64_t expirations;
  // Values that another took the place of.
  uint64_t replacements;
  // Values that were removed.
  uint64_t removals;
  // Entries that are there, expired ones that have not left included.
  uint64_t entries;
  // Their weight: bytes, or one each.
  uint64_t weight;
} cellar_local_figures;

// The value of stores and caches that were opened without a type: bytes. The library's; read only.
typedef struct cellar_bytes {
  // The first of them.
  const uint8_t *data;
  // How many.
  size_t length;
} cellar_bytes;

// How values become bytes and back. All zero where the values are `cellar_bytes`.
//
// Both functions may be called by any thread, also by one of the library's; they must not throw
// and must not use the cache.
typedef struct cellar_codec {
  // Handed to both functions.
  void *context;
  // Makes a value of `length` bytes in `slot`, which is empty room for one. On any other status
  // than `CELLAR_OK` the room has to be empty again.
  cellar_status (*decode)(void *context,
                          const uint8_t *data,
                          size_t length,
                          void *slot,
                          struct cellar_error *error);
  // Writes the bytes of `value` by `cellar_sink_write`.
  cellar_status (*encode)(void *context,
                          const void *value,
                          struct cellar_sink *sink,
                          struct cellar_error *error);
} cellar_codec;

// Options of a near cache. `cellar_near_defaults` fills them; times are milliseconds, and
// `CELLAR_UNSET` stands for the default of docs/near.md, or for none.
typedef struct cellar_near_options {
  // The server: `redis://host:port`, `memcached://host:port`; over TLS `rediss://host:port`,
  // `memcached://tls:host:port`.
  struct cellar_bytes address;
  // The prefix of every key at the server.
  struct cellar_bytes prefix;
  // Over TLS: certificates of authorities, as text in PEM, one of which has to have signed the
  // server's. None, the default: those that the system believes.
  struct cellar_bytes tls_authorities;
  // A certificate to show to a server that asks for one, in PEM, its issuers behind it; none by
  // default.
  struct cellar_bytes tls_certificate;
  // Its key, in PEM. It is copied; whoever opens may wipe theirs.
  struct cellar_bytes tls_key;
  // Most entries; 10,000 by default.
  uint64_t entries_max;
  // If it is not zero, the bound is this many bytes instead: of key, room for the value, its
  // bytes at the server, and 80 for the store itself. Each shard has an equal part of them.
  uint64_t bytes_max;
  // Into how many parts the store is cut; 0, the default, as fits the machine.
  size_t shards;
  // `CELLAR_S3_FIFO`, the default, or `CELLAR_LRU`.
  int32_t policy;
  // `CELLAR_TRACK_KEYS`, the default, or another; nothing to memcached.
  int32_t tracking;
  // How long a copy is served at most.
  uint64_t local_ttl_ms;
  // How long it is remembered that a key has no value.
  uint64_t negative_ttl_ms;
  // The time to live that writes and loaders give to values at the server.
  uint64_t origin_ttl_ms;
  // How long a copy is served after it was last good if the server fails.
  uint64_t serve_stale_ms;
  // After so long another process may load; zero takes no leases.
  uint64_t lease_timeout_ms;
  // How long another process that loads is waited for.
  uint64_t patience_ms;
  // How long an answer is waited for.
  uint64_t timeout_ms;
  // How long a silent connection is believed.
  uint64_t alive_bound_ms;
  // How long a call waits for the server and for other threads that load.
  uint64_t wait_max_ms;
  // The last part of an entry's life in which it is asked for again, 0 to 1; 0, the default,
  // never.
  double refresh_ahead;
  // The part of a time to live that may be taken off it at random, 0 to 1; 0 by default.
  double jitter;
  // The type of its values; all zero, the default: `cellar_bytes`.
  struct cellar_value_type values;
  // How they are written; all zero for `cellar_bytes`.
  struct cellar_codec codec;
} cellar_near_options;

// Counters and contents of a near cache; see docs/near.md.
typedef struct cellar_near_figures {
  // Reads answered from memory.
  uint64_t hits;
  // Reads that had to ask or to wait.
  uint64_t misses;
  // Questions to the server.
  uint64_t loads;
  // Misses that waited for somebody else's question.
  uint64_t shared;
  // Questions and loaders that failed.
  uint64_t errors;
  // Entries served out of date because the server failed.
  uint64_t stale_served;
  // Keys told as changed.
  uint64_t invalidations;
  // Times that everything was void.
  uint64_t flushes;
  // Answers not kept because they are heavier than a shard's part of `bytes_max`.
  uint64_t too_heavy;
  // Refreshes that failed.
  uint64_t refreshes_failed;
  // Entries held.
  uint64_t entries;
  // Their weight: bytes, or one for each.
  uint64_t weight;
} cellar_near_figures;

// It is done, or there is a value.
#define CELLAR_OK 0

// There is no value. Not an error.
#define CELLAR_NONE 1

// A null pointer, a length that is too large, or a setting that there is not.
#define CELLAR_BAD_ARGUMENT 2

// A fault of the library; the cache may be used on.
#define CELLAR_PANIC 3

// The loader failed, here or in the thread that was waited for.
#define CELLAR_LOADER 4

// There was no answer in time.
#define CELLAR_TIMEOUT 5

// The loader of a key asks for the same key: it would wait for itself.
#define CELLAR_OWN_LOAD 6

// The server cannot be reached, or the connection ended before the answer.
#define CELLAR_CONNECTION 7

// The server refused the request.
#define CELLAR_REFUSED 8

// The server's answer makes no sense.
#define CELLAR_PROTOCOL 9

// The bytes are no value, or the value cannot be written as bytes.
#define CELLAR_CODEC 10

// The key is too long for the server.
#define CELLAR_KEY_TOO_LONG 11

// The thread of a near cache could not be started.
#define CELLAR_THREAD 12

// Anything else; the text tells.
#define CELLAR_OTHER 13

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Panics inside the library and returns `CELLAR_PANIC`: for tests of how callers go on.
//
// # Safety
// `error` is null or points to room for an error.
cellar_status cellar_provoke_panic(struct cellar_error *error);

// The library's version, ended by a zero byte; lives for ever.
const char *cellar_version(void);

// One more holder of what is held: the same again, to be released for itself.
//
// # Safety
// `held` is null, or points to what the caller holds.
struct cellar_held cellar_retain(const struct cellar_held *held);

// Gives back what is held and leaves none, so that a second call does nothing. The value ends with
// its last holder, the cache among them.
//
// # Safety
// `held` is null, or points to what the caller holds; nobody else uses it meanwhile.
void cellar_release(struct cellar_held *held);

// Gives back a draft that is not stored and leaves none. What the caller has made in it is not
// ended.
//
// # Safety
// `draft` is null, or points to none or to a draft; nobody else uses it meanwhile.
cellar_status cellar_draft_free(struct cellar_draft *draft, struct cellar_error *error);

// The defaults: 10,000 entries of bytes under keys of bytes, without a time limit.
struct cellar_local_options cellar_local_defaults(void);

// Opens a store.
//
// # Safety
// Pointers are null or point to what their types say; `values.drop` may be called with a value of
// the type by any thread.
cellar_status cellar_local_open(const struct cellar_local_options *options,
                                struct cellar_local **local,
                                struct cellar_error *error);

// Ends a store and leaves null, so that a second call does nothing. Values that are held live on.
//
// # Safety
// `local` is null, or points to null or to an open store; no other thread uses it meanwhile, and
// nobody afterwards.
cellar_status cellar_local_close(struct cellar_local **local, struct cellar_error *error);

// Room for a value, to be filled by the caller and stored, or given back by `cellar_draft_free`.
//
// # Safety
// `local` is null or an open store, `draft` null or room for one.
cellar_status cellar_local_draft(const struct cellar_local *local,
                                 struct cellar_draft *draft,
                                 struct cellar_error *error);

// A draft of a copy of `length` bytes, for a loader to hand over; only for stores without a type
// of values. One that is not handed over leaks its bytes.
//
// # Safety
// `local` is null or an open store, `draft` null or room for one; the bytes are there.
cellar_status cellar_local_draft_bytes(const struct cellar_local *local,
                                       const uint8_t *data,
                                       size_t length,
                                       struct cellar_draft *draft,
                                       struct cellar_error *error);

// Stores the value that the caller has made in a draft, in place of an older one.
//
// If it returns `CELLAR_OK`, the draft is the library's and leaves none; else it is still the
// caller's. `ttl_ms` is how long it lives, or `CELLAR_UNSET`; zero is over at once. `more_bytes`
// is what it has outside of its slot, and counts against `bytes_max`.
//
// # Safety
// `local` is null or an open store; `key`'s bytes are there; `draft` is null, none, or a draft of
// this store with a whole value in it, which nobody else uses any more.
cellar_status cellar_local_insert(const struct cellar_local *local,
                                  struct cellar_key key,
                                  struct cellar_draft *draft,
                                  uint64_t ttl_ms,
                                  uint64_t more_bytes,
                                  struct cellar_error *error);

// Stores a copy of `length` bytes; only for stores without a type of values.
//
// # Safety
// `local` is null or an open store; the bytes of `key` and `data` are there.
cellar_status cellar_local_insert_bytes(const struct cellar_local *local,
                                        struct cellar_key key,
                                        const uint8_t *data,
                                        size_t length,
                                        uint64_t ttl_ms,
                                        struct cellar_error *error);

// The value of `key`, to be given back by `cellar_release`; `CELLAR_NONE` if there is none or its
// time is over.
//
// # Safety
// `local` is null or an open store; `key`'s bytes are there; `held` is null or room for one.
cellar_status cellar_local_get(const struct cellar_local *local,
                               struct cellar_key key,
                               struct cellar_held *held);

// How `cellar_local_get` reads from this store.
//
// # Safety
// `local` is null or an open store, `reader` null or room for one.
cellar_status cellar_local_reader(const struct cellar_local *local,
                                  struct cellar_reader *reader,
                                  struct cellar_error *error);

// The value of `key`; if there is none, `loader` makes it, or this thread waits for another one's,
// for `wait_max_ms` at most (`CELLAR_UNSET`: as long as it takes).
//
// However many threads miss the key, one loader runs, and all of them get what it made, or its
// status and text. Errors, and that there is nothing, are not remembered.
//
// # Safety
// As `cellar_local_get`; `loader` is null or keeps what its type says, and may be given `context`.
cellar_status cellar_local_get_or_load(const struct cellar_local *local,
                                       struct cellar_key key,
                                       cellar_loader loader,
                                       void *context,
                                       uint64_t wait_max_ms,
                                       struct cellar_held *held,
                                       struct cellar_error *error);

// Removes `key`; `CELLAR_NONE` if it was not there.
//
// # Safety
// `local` is null or an open store; `key`'s bytes are there.
cellar_status cellar_local_remove(const struct cellar_local *local,
                                  struct cellar_key key,
                                  struct cellar_error *error);

// Removes everything.
//
// # Safety
// `local` is null or an open store.
cellar_status cellar_local_clear(const struct cellar_local *local, struct cellar_error *error);

// Removes entries whose time is over, up to 16,384 places of each shard; reads miss them anyhow.
//
// # Safety
// `local` is null or an open store.
cellar_status cellar_local_reclaim(const struct cellar_local *local, struct cellar_error *error);

// Reads the counters.
//
// # Safety
// `local` is null or an open store, `figures` null or room for them.
cellar_status cellar_local_stats(const struct cellar_local *local,
                                 struct cellar_local_figures *figures,
                                 struct cellar_error *error);

// Adds bytes to those of a value that is encoded.
//
// # Safety
// `sink` is null or the one that the codec was given, in that call; the bytes are there.
cellar_status cellar_sink_write(struct cellar_sink *sink, const uint8_t *data, size_t length);

// The defaults, with neither address nor prefix.
struct cellar_near_options cellar_near_defaults(void);

// Opens a near cache and starts its thread. It opens no connection before the first read or write.
//
// # Safety
// Pointers are null or point to what their types say; the functions of `values` and `codec` may be
// called by any thread until the cache and its last value are gone.
cellar_status cellar_near_open(const struct cellar_near_options *options,
                               struct cellar_near **near,
                               struct cellar_error *error);

// Ends a near cache with its thread and connections, and leaves null, so that a second call does
// nothing. Values that are held live on.
//
// # Safety
// `near` is null, or points to null or to an open cache; no other thread uses it meanwhile, and
// nobody afterwards.
cellar_status cellar_near_close(struct cellar_near **near, struct cellar_error *error);

// Room for a value, to be filled by the caller and stored, or given back by `cellar_draft_free`.
//
// # Safety
// `near` is null or an open cache, `draft` null or room for one.
cellar_status cellar_near_draft(const struct cellar_near *near,
                                struct cellar_draft *draft,
                                struct cellar_error *error);

// A draft of a copy of `length` bytes, as `cellar_local_draft_bytes`.
//
// # Safety
// `near` is null or an open cache, `draft` null or room for one; the bytes are there.
cellar_status cellar_near_draft_bytes(const struct cellar_near *near,
                                      const uint8_t *data,
                                      size_t length,
                                      struct cellar_draft *draft,
                                      struct cellar_error *error);

// The value of `key`, from memory or from the server, to be given back by `cellar_release`;
// `CELLAR_NONE` if there is none. Threads that miss the same key share one question.
//
// # Safety
// `near` is null or an open cache; `key`'s bytes are there; `held` is null or room for one.
cellar_status cellar_near_get(const struct cellar_near *near,
                              struct cellar_key key,
                              struct cellar_held *held,
                              struct cellar_error *error);

// How a hit is read from this cache: `get` of `reader` returns a value that memory has and that is
// not due to be asked for again. Where it returns null, `cellar_near_get` is to follow.
//
// # Safety
// `near` is null or an open cache, `reader` null or room for one.
cellar_status cellar_near_reader(const struct cellar_near *near,
                                 struct cellar_reader *reader,
                                 struct cellar_error *error);

// The same from memory only; asks nobody.
//
// # Safety
// As `cellar_near_get`.
cellar_status cellar_near_peek(const struct cellar_near *near,
                               struct cellar_key key,
                               struct cellar_held *held);

// The value of `key`; if neither memory nor the server has one, `loader` makes it, it is stored at
// the server and read back. Its `ttl_ms` and `more_bytes` are not looked at.
//
// Of all threads that miss the key one loader runs, and of all processes one, where the server has
// leases; all get what it made, or its status and text.
//
// # Safety
// As `cellar_near_get`; `loader` is null or keeps what its type says, and may be given `context`.
cellar_status cellar_near_get_or_load(const struct cellar_near *near,
                                      struct cellar_key key,
                                      cellar_loader loader,
                                      void *context,
                                      struct cellar_held *held,
                                      struct cellar_error *error);

// Stores the value that the caller has made in a draft at the server; readers of this cache see it
// as soon as this returns. If the draft leaves none, the library has taken it, whatever it
// returns; else it is still the caller's. `ttl_ms` is how long it lives at the server, or
// `CELLAR_UNSET`.
//
// # Safety
// `near` is null or an open cache; `key`'s bytes are there; `draft` is null, none, or a draft of
// this cache with a whole value in it, which nobody else uses any more.
cellar_status cellar_near_set(const struct cellar_near *near,
                              struct cellar_key key,
                              struct cellar_draft *draft,
                              uint64_t ttl_ms,
                              struct cellar_error *error);

// Removes `key` at the server and here; `CELLAR_NONE` if the server had none.
//
// # Safety
// `near` is null or an open cache; `key`'s bytes are there.
cellar_status cellar_near_remove(const struct cellar_near *near,
                                 struct cellar_key key,
                                 struct cellar_error *error);

// Drops the copy of `key` in memory; the server is not asked and not told.
//
// # Safety
// As `cellar_near_remove`.
cellar_status cellar_near_forget(const struct cellar_near *near,
                                 struct cellar_key key,
                                 struct cellar_error *error);

// Reads the counters.
//
// # Safety
// `near` is null or an open cache, `figures` null or room for them.
cellar_status cellar_near_stats(const struct cellar_near *near,
                                struct cellar_near_figures *figures,
                                struct cellar_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CELLAR_NEAR_H */
