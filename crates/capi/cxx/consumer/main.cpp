// A program that uses the installed library: stores one value and reads it back.

#include <cellar/near.hpp>

#include <iostream>
#include <string>

int main() {
    auto opened = cellar::Local<std::string, std::string>::open();
    if (!opened) return 1;
    const auto& store = opened.value();
    if (!store.insert("greeting", "hello")) return 1;
    std::cout << *store.get("greeting") << " from " << cellar_version() << "\n";
    return 0;
}
