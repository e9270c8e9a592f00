package explore

import (
	"math/rand/v2"
	"strconv"
)

// Generate returns the script of a seed.
func Generate(seed uint64) *Script {
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 19))}
	g.world()
	for range 20 + g.rnd.IntN(50) {
		g.step()
	}
	g.heal()
	return &g.script
}

type generator struct {
	rnd    *rand.Rand
	script Script
	logs   int
	faulty int // steps until the faults are disarmed
}

func (g *generator) oneOf(words ...string) string { return words[g.rnd.IntN(len(words))] }

func number(n int) string { return strconv.Itoa(n) }

// world chooses the number of logs and their settings.
func (g *generator) world() {
	g.logs = 1 + g.rnd.IntN(3)/2
	w := Args{"sync": g.oneOf("ack", "ack", "never", "interval"), "cleanup": g.cleanup(),
		"segment": g.oneOf("700", "2000", "3000", "5000")}
	if g.rnd.IntN(2) == 0 {
		g.logs = 2 + g.rnd.IntN(4)
		w["shared"] = "1"
		w["tail"] = g.oneOf("0", "-1")
		w["journal"] = g.oneOf("0", "4096", "40000")
		if w["journal"] != "0" {
			w["share"] = g.oneOf("0", "1", "1")
		}
	}
	w["logs"] = number(g.logs)
	switch g.rnd.IntN(4) {
	case 0:
		w["retention"] = g.oneOf("3000", "12000")
	case 1:
		w["age"] = g.oneOf("500", "3000")
	}
	if g.rnd.IntN(3) == 0 {
		w["delay"] = g.oneOf("500", "3600000")
	}
	g.script.World = w
}

func (g *generator) add(o Op) { g.script.Ops = append(g.script.Ops, o) }

// step adds an operation, a fault, or the end of earlier faults.
func (g *generator) step() {
	if g.faulty > 0 {
		if g.faulty--; g.faulty == 0 {
			g.heal()
		}
	}
	n := g.rnd.IntN(100)
	switch {
	case n < 4:
		g.add(Op{Verb: "crash", Log: -1, Args: Args{"kind": Crashes[g.rnd.IntN(len(Crashes))].Name, "seed": number(g.rnd.IntN(1000))}})
		g.faulty = 0
	case n < 7:
		g.fault()
	case n < 9:
		g.add(Op{Verb: "sleep", Log: -1, Args: Args{"ms": g.oneOf("400", "1100", "11000")}})
	case n < 9+2*g.logs && g.logs > 1: // several logs that are synced at once
		g.add(Op{Verb: "spread", Log: -1, Args: Args{"n": number(1 + g.rnd.IntN(3))}})
	case n < 23 && g.faulty == 0:
		g.overlapped()
	default:
		g.add(g.op())
	}
}

// op chooses an operation on a log.
func (g *generator) op() Op {
	o := Op{Log: g.rnd.IntN(g.logs), Args: Args{}}
	switch n := g.rnd.IntN(100); {
	case n < 30:
		o.Verb, o.Args["n"] = "append", number(1+g.rnd.IntN(4))
	case n < 42:
		o.Verb, o.Args["n"] = "burst", number(2+g.rnd.IntN(6))
	case n < 46:
		o.Verb, o.Args["n"], o.Args["gap"] = "follow", number(1+g.rnd.IntN(3)), g.oneOf("0", "0", "1", "5")
	case n < 51:
		o.Verb = "sync"
	case n < 58:
		o.Verb = "roll"
	case n < 62:
		o.Verb, o.Args["part"] = "delete", g.oneOf("0", "10", "30", "100")
	case n < 72:
		o.Verb = "clean"
		if g.rnd.IntN(5) == 0 {
			o.Args["retain"] = "1"
		}
	case n < 77:
		o.Verb, o.Args["n"] = "truncate", number(g.rnd.IntN(15))
	case n < 79:
		o.Verb, o.Args["n"] = "restart", number(g.rnd.IntN(4))
	case n < 83:
		o.Verb = "epoch"
	case n < 88:
		g.reconfiguration(&o)
	case n < 91:
		o.Verb = "reopen"
	default:
		g.aside(&o)
	}
	return o
}

// aside chooses one of the rarer operations, such as a backup.
func (g *generator) aside(o *Op) {
	o.Verb = g.oneOf("check", "view", "backup", "remove", "lock", "odd", "view")
	if o.Verb == "odd" {
		o.Args["call"] = number(g.rnd.IntN(6))
	}
}

func (g *generator) reconfiguration(o *Op) {
	o.Verb = "reconfigure"
	switch g.rnd.IntN(3) {
	case 0:
		o.Args["cleanup"] = g.cleanup()
	case 1:
		o.Args["segment"] = g.oneOf("700", "2000", "5000")
	default:
		o.Args["sync"] = g.oneOf("ack", "never", "interval")
	}
}

// overlapped adds an operation that begins during another one, on the same log in most cases.
func (g *generator) overlapped() {
	first, second := g.op(), g.op()
	for !mayOverlap[first.Verb] && first.Verb != "view" {
		first = g.op()
	}
	for !mayOverlap[second.Verb] {
		second = g.op()
	}
	if g.rnd.IntN(5) > 0 {
		second.Log = first.Log
	}
	first.At, first.Mid = 1+g.rnd.IntN(40), &second
	g.add(first)
}

var mayOverlap = map[string]bool{
	"append": true, "burst": true, "follow": true, "sync": true, "roll": true, "delete": true, "clean": true, "truncate": true, "restart": true,
	"epoch": true, "reconfigure": true, "backup": true,
}

// fault makes the disk fail for the next few steps.
func (g *generator) fault() {
	a := Args{"ops": g.oneOf("write", "write", "sync", "truncate+write", "create", "open", "rename", "remove", "read", "syncdir", "allocate", "close", "stat+list", "other", "any", "grow"),
		"after": number(g.rnd.IntN(30)), "times": g.oneOf("1", "1", "2", "-1"), "err": g.oneOf("io", "io", "full")}
	switch a["ops"] {
	case "write", "truncate+write", "read":
		a["keep"] = g.oneOf("0", "1", "70", "-1")
		if a["ops"] == "write" && g.rnd.IntN(4) == 0 {
			a["err"] = "short"
		}
	case "grow":
		a["err"], a["times"] = "full", "-1"
	}
	g.add(Op{Verb: "fault", Log: -1, Args: a})
	g.faulty = 1 + g.rnd.IntN(8)
}

func (g *generator) heal() { g.add(Op{Verb: "heal", Log: -1}) }

func (g *generator) cleanup() string {
	return g.oneOf("delete", "compact", "compact", "both", "none")
}
