// Client and server certificates, with the servers whose addresses are given, both of which request
// client certificates: first one that sends invalidations, then one with the memcached protocol.
// The last argument is the folder of the certificates.

#include <cellar/near.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "check.hpp"

using namespace std::chrono_literals;
using cellar::Near;
using cellar::NearOptions;
using cellar::Status;

namespace {

std::string server;
std::string daemon;
std::string folder;

std::string read(const std::string& name) {
    std::ifstream file(folder + "/" + name);
    CHECK(file);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Options that trust the test's authority, without a client certificate.
NearOptions believing(const std::string& address) {
    NearOptions options;
    options.address = address;
    options.prefix = "tls:";
    options.local_ttl = 60s;
    options.tls_authorities = read("ca.pem");
    return options;
}

// Options with a client certificate.
NearOptions showing(const std::string& address) {
    NearOptions options = believing(address);
    options.tls_certificate = read("client.pem");
    options.tls_key = read("client.key");
    return options;
}

Near<std::string> open(const NearOptions& options) {
    auto opened = Near<std::string>::open(options);
    CHECK(opened);
    return std::move(opened).value();
}

void who_shows_a_certificate_reads_and_writes() {
    for (const auto& address : {server, daemon}) {
        const auto near = open(showing(address));
        const std::string value(100'000, 'v');
        const auto stored = near.set("k", value);
        if (!stored) std::fprintf(stderr, "%s: %s\n", address.c_str(), stored.error().text().c_str());
        CHECK(stored && *near.get("k").value() == value);
        CHECK(*open(showing(address)).get("k").value() == value);
    }
}

void changes_are_told_over_tls() {
    const auto near = open(showing(server));
    const auto other = open(showing(server));
    CHECK(near.set("changed", "one"));
    wait_until([&] { return near.get("changed").value() && near.peek("changed"); });
    CHECK(other.set("changed", "two"));
    wait_until([&] { return !near.peek("changed"); });
    CHECK(*near.get("changed").value() == "two");
}

void who_shows_none_is_told_that_there_is_no_connection() {
    for (const auto& address : {server, daemon}) {
        const auto near = open(believing(address));
        CHECK(near.get("k").error().status() == Status::connection);
    }
}

void a_server_that_nobody_has_vouched_for_is_not_believed() {
    for (const auto& address : {server, daemon}) {
        NearOptions options = showing(address);
        options.tls_authorities = read("client.pem");
        CHECK(open(options).get("k").error().status() == Status::connection);
    }
}

void papers_that_are_none_are_refused() {
    NearOptions options = showing(server);
    options.tls_key.clear();
    const auto halved = Near<std::string>::open(options);
    CHECK(halved.error().status() == Status::bad_argument);
    CHECK(halved.error().text() == "tls_certificate and tls_key belong together");

    for (const auto& address : {server, daemon}) {
        options = showing(address);
        options.tls_key = "secret";
        const auto opened = Near<std::string>::open(options);
        CHECK(opened.error().status() == Status::connection);
        CHECK(opened.error().text().find("secret") == std::string::npos);
    }
    options = showing("redis://127.0.0.1:1");
    CHECK(!Near<std::string>::open(options));
    options = showing(server);
    options.tls_authorities = std::string((1 << 20) + 1, '-');
    CHECK(Near<std::string>::open(options).error().status() == Status::bad_argument);
}

}  // namespace

int main(int count, char** words) {
    CHECK(count == 4);
    server = words[1];
    daemon = words[2];
    folder = words[3];
    RUN(who_shows_a_certificate_reads_and_writes);
    RUN(changes_are_told_over_tls);
    RUN(who_shows_none_is_told_that_there_is_no_connection);
    RUN(a_server_that_nobody_has_vouched_for_is_not_believed);
    RUN(papers_that_are_none_are_refused);
    return 0;
}
