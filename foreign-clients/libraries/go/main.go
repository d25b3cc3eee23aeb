// Programs of Go libraries: the library's name is the argument, the server's address lies in HOST
// and PORT.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

var (
	address  = os.Getenv("HOST") + ":" + os.Getenv("PORT")
	programs = map[string]func(){}
)

// program makes a library's program known.
func program(library string, run func()) struct{} {
	programs[library] = run
	return struct{}{}
}

// show prints one line of the result; a value that is an error ends nothing.
func show(what string, values ...any) {
	fmt.Print(what, ":")
	for _, value := range values {
		if problem, is := value.(error); is {
			value = problem.Error()
		}
		if bytes, is := value.([]byte); is {
			value = string(bytes)
		}
		text, err := json.Marshal(value)
		must(err)
		fmt.Print(" ", string(text))
	}
	fmt.Println()
}

// must ends the program at an error.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// got is a value of a call that must not fail.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// near tells whether a TTL is what was set, but for a moment that has gone by.
func near(ttl, expected time.Duration) bool {
	return expected-3*time.Second <= ttl && ttl <= expected
}

func main() {
	run := programs[os.Args[1]]
	if run == nil {
		must(fmt.Errorf("there is no program of %s", os.Args[1]))
	}
	run()
}
