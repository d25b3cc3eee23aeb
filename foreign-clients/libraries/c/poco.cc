// Poco::Redis: commands, arrays, pipelines.

#include <Poco/Redis/Client.h>
#include <Poco/Redis/Command.h>

#include <iostream>

#include "show.h"

int main() {
    using Poco::Redis::Command;
    Poco::Redis::Client client(server_host(), server_port());
    std::cout << "set: " << client.execute<std::string>(Command::set("a", "1")) << "\n";
    std::cout << "incr: " << client.execute<Poco::Int64>(Command::incr("a", 4)) << "\n";
    std::cout << "hash: " << client.execute<Poco::Int64>(Command::hset("h", "f", "v")) << "\n";
    auto all = client.execute<Poco::Redis::Array>(Command::hgetall("h"));
    std::cout << "all: " << all.toString();
    auto missing = client.execute<Poco::Redis::BulkString>(Command::get("none"));
    std::cout << "missing: " << missing.isNull() << "\n";
    std::cout << "delete: " << client.execute<Poco::Int64>(Command::del("a")) << "\n";
}
