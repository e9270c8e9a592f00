//go:build !invariants

package record

const checkAll = false

func poison([]byte) {}
