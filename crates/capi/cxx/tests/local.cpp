// The local store in C++: values, loads, errors, times, many threads.

#include <cellar/near.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace std::chrono_literals;
using cellar::Error;
using cellar::Held;
using cellar::Local;
using cellar::LocalOptions;
using cellar::Made;
using cellar::Result;
using cellar::Status;

namespace {

// A value that counts its instances and copies.
struct Counted {
    static inline std::atomic<int> alive{0};
    static inline std::atomic<int> copies{0};

    explicit Counted(std::string name) : text(std::move(name)) { ++alive; }
    Counted(const Counted& other) : text(other.text) { ++alive, ++copies; }
    Counted(Counted&& other) noexcept : text(std::move(other.text)) { ++alive; }
    ~Counted() { --alive; }

    std::string text;
};

// Types whose size or alignment is too large for a slot.
struct Large {
    std::array<std::uint64_t, 600> numbers{};
};
struct alignas(64) Aligned {
    std::uint64_t number = 0;
};

template <class K, class T>
Local<K, T> open(const LocalOptions& options = {}) {
    auto opened = Local<K, T>::open(options);
    CHECK(opened);
    return std::move(opened).value();
}

using Texts = Local<std::string, std::string>;

static_assert(sizeof(Held<Large>) == 24);
static_assert(std::is_nothrow_copy_constructible_v<Held<Large>>);

void values_are_handed_out_by_reference_and_ended_once() {
    {
        const auto store = open<std::string, Counted>();
        CHECK(store.insert("k", Counted("v")));
        CHECK(Counted::alive == 1 && Counted::copies == 0);
        Held<Counted> held = store.get("k");
        CHECK(held && held->text == "v" && (*held).text == "v" && held.get() != nullptr);
        CHECK(store.get("k").get() == held.get());
        CHECK(Counted::copies == 0);
        CHECK(store.remove("k").value() && !store.remove("k").value());
        CHECK(!store.get("k") && Counted::alive == 1);
        Held<Counted> again = held;
        held = Held<Counted>();
        CHECK(!held && held.get() == nullptr && again->text == "v");
        again = std::move(again);
        CHECK(again->text == "v" && !again.is_stale());
        const std::shared_ptr<const Counted> shared = again.shared();
        again = {};
        CHECK(shared->text == "v" && Counted::alive == 1);
        CHECK(Held<Counted>().shared() == nullptr);
    }
    CHECK(Counted::alive == 0 && Counted::copies == 0);
}

void values_of_every_size_and_alignment_come_back() {
    const auto bytes = open<std::uint64_t, char>();
    CHECK(bytes.insert(7, 'x') && *bytes.get(7) == 'x');
    const auto large = open<std::uint64_t, Large>();
    Large value;
    value.numbers[99] = 9;
    CHECK(large.insert(7, value) && large.get(7)->numbers[99] == 9);
    const auto aligned = open<std::uint64_t, Aligned>();
    CHECK(aligned.insert(7, Aligned{3}) && aligned.get(7)->number == 3);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned.get(7).get()) % 64 == 0);
    const auto doubles = open<std::uint64_t, long double>();
    CHECK(doubles.insert(7, 1.5L) && *doubles.get(7) == 1.5L);
    CHECK(reinterpret_cast<std::uintptr_t>(doubles.get(7).get()) % alignof(long double) == 0);
    const auto most = open<std::string, std::array<char, CELLAR_VALUE_BYTES_MAX>>();
    CHECK(most.insert("k", {'a'}) && (*most.get("k"))[0] == 'a');
    const auto pointers = open<std::string, std::unique_ptr<int>>();
    CHECK(pointers.insert("k", std::make_unique<int>(7)) && **pointers.get("k") == 7);
}

void keys_of_every_length_are_found_by_their_view() {
    const auto store = open<std::string, std::size_t>();
    const std::string all(300, 'k');
    for (std::size_t length = 0; length < all.size(); ++length) {
        CHECK(store.insert(std::string_view(all).substr(0, length), length));
    }
    for (std::size_t length = 0; length < all.size(); ++length) {
        CHECK(*store.get(std::string_view(all).substr(0, length)) == length);
    }
    CHECK(store.insert(std::string_view("a\0b", 3), 1) && !store.get("a"));
    CHECK(*store.get(std::string_view("a\0b", 3)) == 1);
    const std::string huge(CELLAR_KEY_BYTES_MAX + 1, 'k');
    const auto refused = store.insert(huge, 1);
    CHECK(!refused && refused.error().status() == Status::bad_argument);
    CHECK(refused.error().text().find("at most 65536") != std::string::npos);
    CHECK(!store.get(huge));
}

void a_time_to_live_ends_an_entry() {
    LocalOptions options;
    options.ttl = 1h;
    const auto store = open<std::string, std::string>(options);
    CHECK(store.insert("short", "v", 20ms) && store.insert("long", "v"));
    CHECK(store.insert("over", "v", 0ms) && !store.get("over"));
    CHECK(store.insert("negative", "v", -5ms) && !store.get("negative"));
    wait_until([&] { return !store.get("short"); });
    CHECK(store.get("long"));
    CHECK(store.reclaim());
    CHECK(store.stats().value().entries == 1);
}

void a_store_is_bounded_by_entries_or_bytes_and_told_its_policy() {
    LocalOptions options;
    options.entries_max = 10;
    options.shards = 1;
    options.policy = cellar::Policy::lru;
    const auto few = open<std::uint64_t, int>(options);
    for (std::uint64_t key = 0; key < 11; ++key) CHECK(few.insert(key, 1) && (key < 1 || few.get(0)));
    CHECK(few.get(0) && !few.get(1));
    CHECK(few.stats().value().entries == 10 && few.stats().value().evictions == 1);
    options.bytes_max = 10'000;
    const auto light = open<std::uint64_t, int>(options);
    for (std::uint64_t key = 0; key < 10; ++key) CHECK(light.insert(key, 1, std::nullopt, 2'000));
    const auto stats = light.stats().value();
    CHECK(stats.weight <= 10'000 && stats.entries == 4);
    CHECK(light.clear() && light.stats().value().entries == 0);
}

void the_hit_ratio_counts_reads() {
    const auto store = open<std::string, int>();
    CHECK(store.stats().value().hit_ratio() == 0.0);
    CHECK(store.insert("k", 1));
    for (int times = 0; times < 3; ++times) CHECK(store.get("k"));
    CHECK(!store.get("other"));
    const auto stats = store.stats().value();
    CHECK(stats.hits == 3 && stats.misses == 1 && stats.hit_ratio() == 0.75);
}

// Threads that miss one key at the same time, and the result of each.
template <class Loader>
std::vector<Result<Held<std::string>>> read_by_many(const Texts& store, Loader loader) {
    std::vector<std::optional<Result<Held<std::string>>>> told(8);
    std::vector<std::thread> threads;
    for (auto& one : told) {
        threads.emplace_back([&] { one = store.get_or_load("k", loader); });
    }
    for (auto& thread : threads) thread.join();
    std::vector<Result<Held<std::string>>> all;
    for (auto& one : told) all.push_back(std::move(*one));
    return all;
}

void of_many_threads_one_loads_a_key() {
    const auto store = open<std::string, std::string>();
    std::atomic<int> calls{0};
    const auto load = [&] {
        ++calls;
        std::this_thread::sleep_for(soon);
        return std::string("made");
    };
    for (const auto& told : read_by_many(store, load)) CHECK(told && *told.value() == "made");
    CHECK(calls == 1 && *store.get("k") == "made");
}

void what_a_loader_throws_is_an_error_for_all_who_wait() {
    const auto store = open<std::string, std::string>();
    std::atomic<int> calls{0};
    const auto fail = [&]() -> std::string {
        ++calls;
        std::this_thread::sleep_for(soon);
        throw std::runtime_error("the database is away");
    };
    for (const auto& told : read_by_many(store, fail)) {
        CHECK(!told && told.error().status() == Status::loader);
        CHECK(told.error().text() == "the database is away");
    }
    CHECK(calls >= 1 && calls < 8);
    const auto odd = store.get_or_load("k", []() -> std::string { throw 7; });
    CHECK(!odd && odd.error().text() == "an exception that is no std::exception");
    const auto full = store.get_or_load("k", []() -> std::string { throw std::bad_alloc(); });
    CHECK(!full && full.error().status() == Status::loader);
    CHECK(*store.get_or_load("k", [] { return std::string("v"); }).value() == "v");
}

// A type whose move constructor may throw; the draft is then freed without a value.
struct Fragile {
    explicit Fragile(bool is_good) : good(is_good) {}
    Fragile(Fragile&& other) : good(other.good) {
        if (!good) throw std::runtime_error("broken on the way");
    }
    bool good;
};

void a_value_whose_making_throws_leaves_nothing() {
    const auto store = open<std::string, Fragile>();
    const auto told = store.get_or_load("k", [] { return Fragile(false); });
    CHECK(!told && told.error().text() == "broken on the way");
    CHECK(!store.get("k"));
    bool has_thrown = false;
    try {
        (void)store.insert("k", Fragile(false)).ok();
    } catch (const std::runtime_error&) {
        has_thrown = true;
    }
    CHECK(has_thrown && !store.get("k"));
    CHECK(store.get_or_load("k", [] { return Fragile(true); }).value()->good);
}

void a_loader_may_return_a_value_none_an_error_or_a_time_to_live() {
    const auto store = open<std::string, std::string>();
    const auto none = [] { return std::optional<std::string>(); };
    CHECK(store.get_or_load("none", none) && !store.get_or_load("none", none).value());
    const auto some = [] { return std::optional<std::string>("some"); };
    CHECK(*store.get_or_load("some", some).value() == "some");
    const auto result = [] { return Result<std::string>(std::string("result")); };
    CHECK(*store.get_or_load("result", result).value() == "result");
    const auto refuse = [] { return Result<std::string>(Error(Status::refused, "not you")); };
    const auto refused = store.get_or_load("refused", refuse);
    CHECK(refused.error().status() == Status::refused && refused.error().text() == "not you");
    const auto odd = store.get_or_load(
        "odd", [] { return Result<std::string>(Error(Status::none, "says nothing")); });
    CHECK(odd.error().status() == Status::loader && odd.error().text() == "says nothing");
    const auto brief = [] { return Made<std::string>{"brief", 20ms}; };
    CHECK(*store.get_or_load("brief", brief).value() == "brief");
    wait_until([&] { return !store.get("brief"); });
    using Maybe = Result<std::optional<Made<std::string>>>;
    const auto all = [] { return Maybe(std::optional(Made<std::string>{"all", 1h, 3})); };
    CHECK(*store.get_or_load("all", all).value() == "all");
}

void a_loader_may_use_the_store_but_not_for_its_own_key() {
    const auto store = open<std::string, std::string>();
    const auto told = store.get_or_load("k", [&] {
        const auto own = store.get_or_load("k", [] { return std::string("inner"); });
        CHECK(!own && own.error().status() == Status::own_load);
        const auto other = store.get_or_load("other", [] { return std::string("o"); });
        return *other.value() + "uter";
    });
    CHECK(*told.value() == "outer");
}

void nobody_waits_for_longer_than_it_says() {
    const auto store = open<std::string, std::string>();
    std::atomic<bool> is_loading{false};
    std::atomic<bool> may_end{false};
    std::thread loads([&] {
        const auto told = store.get_or_load("k", [&] {
            is_loading = true;
            wait_until([&] { return may_end.load(); });
            return std::string("v");
        });
        CHECK(*told.value() == "v");
    });
    wait_until([&] { return is_loading.load(); });
    const auto told = store.get_or_load("k", [] { return std::string("other"); }, soon);
    CHECK(!told && told.error().status() == Status::timeout);
    may_end = true;
    loads.join();
}

void what_was_removed_while_it_was_loaded_is_not_kept() {
    const auto store = open<std::string, std::string>();
    const auto told = store.get_or_load("k", [&] {
        CHECK(!store.remove("k").value());
        return std::string("old");
    });
    CHECK(*told.value() == "old" && !store.get("k"));
}

// The rows of the table of edge cases in docs/near.md.

void what_was_written_while_it_was_loaded_stays_and_a_clear_leaves_nothing() {
    const auto store = open<std::string, std::string>();
    const auto written = store.get_or_load("k", [&] {
        CHECK(store.insert("k", "written"));
        return std::string("loaded");
    });
    CHECK(*written.value() == "loaded" && *store.get("k") == "written");
    const auto cleared = store.get_or_load("l", [&] {
        CHECK(store.clear());
        return std::string("loaded");
    });
    CHECK(*cleared.value() == "loaded" && !store.get("l"));
}

void an_old_deadline_ends_no_later_value() {
    const auto store = open<std::string, std::string>();
    CHECK(store.insert("k", "timed", 20ms) && store.insert("k", "untimed"));
    CHECK(store.insert("end", "v", 40ms));
    wait_until([&] { return !store.get("end"); });
    CHECK(*store.get("k") == "untimed");
    CHECK(store.insert("k", "timed", 20ms) && store.clear() && store.insert("k", "new"));
    CHECK(store.insert("end", "v", 40ms));
    wait_until([&] { return !store.get("end"); });
    CHECK(*store.get("k") == "new");
}

void an_overwrite_heavier_than_the_bound_leaves_the_others() {
    LocalOptions options;
    options.shards = 1;
    options.bytes_max = 10'000;
    const auto store = open<std::uint64_t, int>(options);
    for (std::uint64_t key = 0; key < 4; ++key) CHECK(store.insert(key, 1, std::nullopt, 2'000));
    CHECK(store.insert(1, 2, std::nullopt, 20'000) && !store.get(1));
    CHECK(store.get(0) && store.get(2) && store.get(3));
}

void more_loads_than_places_all_end_with_their_values() {
    LocalOptions options;
    options.entries_max = 2;
    const auto store = open<std::uint64_t, std::uint64_t>(options);
    std::atomic<std::uint64_t> under_way{0};
    std::vector<std::thread> threads;
    for (std::uint64_t key = 0; key < 16; ++key) {
        threads.emplace_back([&, key] {
            const auto told = store.get_or_load(key, [&] {
                ++under_way;
                wait_until([&] { return under_way == 16; });
                return key;
            });
            CHECK(*told.value() == key);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(store.stats().value().entries <= 2);
}

void a_full_store_whose_entries_have_ended_takes_as_many_new_ones() {
    LocalOptions options;
    options.shards = 1;
    options.entries_max = 100;
    const auto store = open<std::uint64_t, int>(options);
    for (std::uint64_t key = 0; key < 100; ++key) CHECK(store.insert(key, 1, 20ms));
    for (std::uint64_t key = 0; key < 100; ++key) wait_until([&] { return !store.get(key); });
    for (std::uint64_t key = 1'000; key < 1'100; ++key) CHECK(store.insert(key, 2));
    for (std::uint64_t key = 1'000; key < 1'100; ++key) CHECK(*store.get(key) == 2);
}

void a_life_of_zero_is_not_served_and_one_of_a_millisecond_ends() {
    const auto store = open<std::string, int>();
    CHECK(store.insert("none", 1, 0ms) && !store.get("none"));
    CHECK(store.insert("short", 1, 1ms));
    wait_until([&] { return !store.get("short"); });
}

void one_who_gave_up_waiting_does_not_disturb_the_load_of_others() {
    const auto store = open<std::string, std::string>();
    std::atomic<bool> is_loading{false};
    std::atomic<bool> may_end{false};
    const auto load = [&] {
        is_loading = true;
        wait_until([&] { return may_end.load(); });
        return std::string("v");
    };
    std::thread first([&] { CHECK(*store.get_or_load("k", load).value() == "v"); });
    wait_until([&] { return is_loading.load(); });
    std::atomic<int> others{0};
    const auto other = [&] {
        ++others;
        return std::string("other");
    };
    const auto impatient = store.get_or_load("k", other, 0ms);
    CHECK(impatient.error().status() == Status::timeout);
    std::thread patient([&] { CHECK(*store.get_or_load("k", other).value() == "v"); });
    may_end = true;
    first.join();
    patient.join();
    CHECK(others == 0 && *store.get("k") == "v");
}

void a_panic_does_not_cross_and_the_store_goes_on() {
    const auto store = open<std::string, std::string>();
    CHECK(store.insert("k", "v"));
    cellar_error error;
    CHECK(cellar_provoke_panic(&error) == CELLAR_PANIC && error.status == CELLAR_PANIC);
    CHECK(std::string_view(error.text) == "provoked on purpose");
    CHECK(cellar_provoke_panic(nullptr) == CELLAR_PANIC);
    const auto told = store.get_or_load("l", []() -> Result<std::string> {
        cellar_error inner;
        const cellar_status status = cellar_provoke_panic(&inner);
        return Error(static_cast<Status>(status), inner.text);
    });
    CHECK(told.error().status() == Status::panic && *store.get("k") == "v");
}

void settings_that_there_are_not_are_refused() {
    LocalOptions options;
    options.policy = static_cast<cellar::Policy>(7);
    const auto refused = Texts::open(options);
    CHECK(!refused && refused.error().status() == Status::bad_argument);
    CHECK(refused.error().text() == "there is no policy 7");
}

void copies_are_the_same_store_and_values_outlive_it() {
    Held<Counted> held;
    {
        std::optional<Local<std::string, Counted>> first = open<std::string, Counted>();
        const auto second = *first;
        CHECK(first->insert("k", Counted("v")));
        first.reset();
        held = second.get("k");
    }
    CHECK(held->text == "v" && Counted::alive == 1);
    held = {};
    CHECK(Counted::alive == 0);
}

void threads_may_do_everything_at_once() {
    {
        LocalOptions options;
        options.entries_max = 500;
        const auto store = open<std::uint64_t, Counted>(options);
        std::vector<std::thread> threads;
        for (std::uint64_t seed = 1; seed <= 4; ++seed) {
            threads.emplace_back([&store, seed] {
                std::uint64_t random = seed;
                for (int times = 0; times < 5'000; ++times) {
                    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                    const std::uint64_t key = (random >> 33) % 1'000;
                    const std::string text = std::to_string(key);
                    switch ((random >> 60) % 8) {
                        case 0: CHECK(store.insert(key, Counted(text), 5ms)); break;
                        case 1: CHECK(store.remove(key)); break;
                        case 2:
                        case 3: {
                            const auto load = [&] { return Counted(text); };
                            CHECK(store.get_or_load(key, load).value()->text == text);
                            break;
                        }
                        default:
                            if (const auto held = store.get(key)) CHECK(held->text == text);
                    }
                    if (times % 1'000 == 0) CHECK(store.clear() && store.reclaim());
                }
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(store.stats().value().entries <= 500);
    }
    CHECK(Counted::alive == 0);
}

}  // namespace

int main() {
    RUN(values_are_handed_out_by_reference_and_ended_once);
    RUN(values_of_every_size_and_alignment_come_back);
    RUN(keys_of_every_length_are_found_by_their_view);
    RUN(a_time_to_live_ends_an_entry);
    RUN(a_store_is_bounded_by_entries_or_bytes_and_told_its_policy);
    RUN(the_hit_ratio_counts_reads);
    RUN(of_many_threads_one_loads_a_key);
    RUN(what_a_loader_throws_is_an_error_for_all_who_wait);
    RUN(a_value_whose_making_throws_leaves_nothing);
    RUN(a_loader_may_return_a_value_none_an_error_or_a_time_to_live);
    RUN(a_loader_may_use_the_store_but_not_for_its_own_key);
    RUN(nobody_waits_for_longer_than_it_says);
    RUN(what_was_removed_while_it_was_loaded_is_not_kept);
    RUN(what_was_written_while_it_was_loaded_stays_and_a_clear_leaves_nothing);
    RUN(an_old_deadline_ends_no_later_value);
    RUN(an_overwrite_heavier_than_the_bound_leaves_the_others);
    RUN(more_loads_than_places_all_end_with_their_values);
    RUN(a_full_store_whose_entries_have_ended_takes_as_many_new_ones);
    RUN(a_life_of_zero_is_not_served_and_one_of_a_millisecond_ends);
    RUN(one_who_gave_up_waiting_does_not_disturb_the_load_of_others);
    RUN(a_panic_does_not_cross_and_the_store_goes_on);
    RUN(settings_that_there_are_not_are_refused);
    RUN(copies_are_the_same_store_and_values_outlive_it);
    RUN(threads_may_do_everything_at_once);
    return 0;
}
