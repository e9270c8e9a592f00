package main

import (
	"fmt"
	"strconv"
)

const total = 1000

// A use is a kind of data: its records, and the state that its consumer computes. The key of a
// record has its number.
type use struct {
	topic string
	value func(i int) string

	apply func(state map[string]int, i int, value string)
	want  map[string]int // the state after each record was applied once
}

// courier: the present position. The next coordinate replaces a lost one.
func courier() use {
	return use{
		topic: "coordinates",
		value: func(i int) string { return strconv.Itoa(52_000 + i) },
		apply: func(state map[string]int, _ int, value string) { state["courier-7"], _ = strconv.Atoi(value) },
		want:  map[string]int{"courier-7": 52_000 + total - 1},
	}
}

// orderStates: placed, paid, packed, sent. An event has the new state of the order. It may come
// twice, but none may be missing.
func orderStates() use {
	want := map[string]int{}
	for i := range total / 4 {
		want[fmt.Sprint("order-", i)] = 3
	}
	return use{
		topic: "states",
		value: func(i int) string { return strconv.Itoa(i % 4) },
		apply: func(state map[string]int, i int, value string) {
			step, _ := strconv.Atoi(value)
			order := fmt.Sprint("order-", i/4)
			// a step out of turn is rejected: the step before it was lost
			if step == state[order]+1 || step == 0 {
				state[order] = max(state[order], step)
			}
		},
		want: want,
	}
}

// cardLimits: raised by 10 each time, and reset to 500 once. Money must neither get lost nor be
// counted twice.
func cardLimits() use {
	const reset = 100 // this one sets the limit, the others raise it
	return use{
		topic: "limits",
		value: func(i int) string {
			if i == reset {
				return "=500"
			}
			return "+10"
		},
		apply: func(state map[string]int, _ int, value string) {
			n, _ := strconv.Atoi(value[1:])
			if value[0] == '=' {
				state["card-1"] = n
			} else {
				state["card-1"] += n
			}
		},
		want: map[string]int{"card-1": 500 + 10*(total-reset-1)},
	}
}
