// Command edge-cases runs in-process caches for Go and Node.js through the edge cases of docs/near.md.
//
// Each line of its output is a library with its version, a case and what happened, with tabs between them.
package main

import (
	"fmt"
	"runtime/debug"
)

var libraries = []library{
	{name: "github.com/dgraph-io/ristretto/v2", open: openRistretto, ownTTLs: true, weighted: true},
	{name: "github.com/maypok86/otter/v2", open: openOtter, ownTTLs: true, weighted: true},
	{name: "github.com/Yiling-J/theine-go", open: openTheine, ownTTLs: true, weighted: true},
	{name: "github.com/viccon/sturdyc", open: openSturdyc},
}

var cases = []struct {
	name string
	run  func(library) string
}{
	{"write during a load", writeDuringLoad},
	{"remove during a load", removeDuringLoad},
	{"clear during a load", clearDuringLoad},
	{"untimed write over a timed value", untimedOverTimed},
	{"the loading caller is cancelled", func(l library) string { return twoCallers(l, true) }},
	{"a waiting caller is cancelled", func(l library) string { return twoCallers(l, false) }},
	{"overwrite heavier than the limit", heavierThanLimit},
	{"full of expired entries", allExpired},
	{"more loads than space", moreLoadsThanSpace},
	{"clear and an old deadline", clearAndDeadline},
	{"short TTLs", shortTTLs},
}

// outcome is what a case tells, or how the library panics.
func outcome(run func(library) string, one library) (told string) {
	defer func() {
		if problem := recover(); problem != nil {
			told = fmt.Sprintf("panic: %v", problem)
		}
	}()
	return run(one)
}

func main() {
	versions := map[string]string{}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			versions[module.Path] = module.Version
		}
	}
	for _, one := range libraries {
		for _, each := range cases {
			fmt.Printf("%s %s\t%s\t%s\n", one.name, versions[one.name], each.name, outcome(each.run, one))
		}
	}
}
