package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// pause returns a time without actions: mostly as long as an append takes, or as long as a missing
// broker takes to be noticed.
func (w *world) pause() time.Duration {
	most := 3 * time.Millisecond
	switch w.r.IntN(20) {
	case 0:
		most = 20 * time.Second
	case 1, 2, 3:
		most = 60 * time.Millisecond
	}
	return 1 + time.Duration(w.r.Int64N(int64(most)))
}

func (w *world) slow(from, to int32) {
	most := 2 * time.Millisecond
	if w.r.IntN(8) == 0 { // so slow that leaders change meanwhile
		most = 4 * time.Second
	}
	w.c.Network().Slow(NetworkPath{From: from, To: to}, 1+time.Duration(w.r.Int64N(int64(most))))
}

// act performs one random action.
func (w *world) act() {
	broker := int32(1 + w.r.IntN(3))
	partition := w.r.Int32N(w.partitions)
	if leader := w.c.Leader(worldTopic, partition); w.r.IntN(2) == 0 && leader > 0 {
		broker = leader
	}
	from := int32(1 + w.r.IntN(3))
	to := 1 + (from+int32(w.r.IntN(2)))%3
	w.lookForFenced()
	switch n := w.r.IntN(44); {
	case n < 24:
		w.produce(partition)
	case n < 28:
		w.kill(broker)
	case n < 29:
		w.stop(broker)
	case n < 33:
		w.start()
	case n < 34:
		w.tr.add("cut %d-%d", from, to)
		w.c.Network().Cut(NetworkPath{From: from, To: to})
	case n < 36:
		w.tr.add("mend %d-%d", from, to)
		w.c.Network().Mend(NetworkPath{From: from, To: to})
		w.slow(from, to)
	case n < 37:
		w.delays.mu.Lock()
		w.delays.factor[broker] = time.Duration(1 << w.r.IntN(6))
		w.delays.mu.Unlock()
	case n < 38:
		w.background("lead", broker, func(ctx context.Context) error { return w.c.TransferLeader(ctx, at(worldTopic, partition), broker) })
	case n < 39 && w.mayEnd():
		w.cover.faults++
		w.failed[broker] = true
		w.tr.add("disk %d fails", broker)
		w.mends = append(w.mends, w.disks[broker-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: errDisk}))
	case n >= 40 && n < 42:
		w.around(broker, w.r.IntN(6), false)
	case n >= 42:
		w.around(w.cutOff, 0, true)
	}
}

// around cuts a broker off from both others, permanently: both ways, or in one direction, or by
// holding up one direction. Or it mends the paths.
func (w *world) around(broker int32, direction int, mend bool) {
	if broker == 0 {
		return
	}
	w.cutOff = broker
	w.tr.add("around %d, direction %d, mend %v", broker, direction, mend)
	for _, other := range []int32{broker%3 + 1, (broker+1)%3 + 1} {
		for i, p := range []NetworkPath{{From: broker, To: other}, {From: other, To: broker}} {
			switch {
			case mend:
				w.c.Network().Mend(p)
				w.slow(p.From, p.To)
			case direction >= 4:
				if direction == 4+i {
					w.c.Network().Pause(p)
				}
			case direction != 2-i:
				w.c.Network().Cut(p)
			}
		}
	}
}

// lookForFenced counts brokers that are fenced while they run.
func (w *world) lookForFenced() {
	for id := range int32(3) {
		fenced := w.runsFenced(id + 1)
		if fenced && !w.fenced[id] {
			w.cover.fenced++
		}
		w.fenced[id] = fenced
	}
}

func (w *world) runsFenced(broker int32) bool {
	return w.c.serving()[broker] != nil && w.c.isFenced(broker)
}

// mayEndFenced reports whether a fenced broker that runs may be ended. Both others must serve, and
// have the acknowledged records.
func (w *world) mayEndFenced(broker int32) bool {
	w.mu.Lock()
	idle := len(w.acting) == 0 && len(w.down) == 0 && len(w.c.Brokers()) == 2
	w.mu.Unlock()
	out := slices.DeleteFunc(w.outOfSync(), func(id int32) bool { return id == broker })
	return idle && w.runsFenced(broker) && (!w.loose || len(out) == 0)
}

// background runs an action that takes some time.
func (w *world) background(what string, broker int32, do func(context.Context) error) {
	w.tr.add("%s %d", what, broker)
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
		defer cancel()
		err := do(ctx)
		w.tr.add("%s %d: %v", what, broker, err)
	})
}

// idle reports whether all brokers serve, and none is being ended or started.
func (w *world) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acting) == 0 && len(w.down) == 0 && len(w.c.Brokers()) == 3
}

// mayEnd reports whether a broker may be ended, or its disk fail. Another broker must have the
// acknowledged records.
func (w *world) mayEnd() bool { return w.idle() && (!w.loose || len(w.outOfSync()) == 0) }

func (w *world) kill(broker int32) {
	if w.mayEndFenced(w.cutOff) {
		broker = w.cutOff
		w.cover.fencedEnded++
	} else if !w.mayEnd() {
		return
	}
	w.delays.mu.Lock()
	if w.delays.syncing[fmt.Sprint(broker, " ", worldTopic, "-0")]+w.delays.syncing[fmt.Sprint(broker, " ", worldTopic, "-1")] > 0 {
		w.cover.duringSync++
	}
	if broker == w.c.Controller() && w.delays.syncing[fmt.Sprint(broker, " ", topic.MetadataTopic, "-0")] > 0 {
		w.cover.controllers++
	}
	w.delays.mu.Unlock()
	w.change(broker, true, "kill", func(context.Context) error { return w.c.KillBroker(broker) })
}

func (w *world) stop(broker int32) {
	if w.mayEnd() {
		w.change(broker, true, "stop", func(ctx context.Context) error { return w.c.StopBroker(ctx, broker) })
	}
}

// start starts a broker that is down.
func (w *world) start() {
	w.mu.Lock()
	var which []int32
	for id := range int32(3) {
		if (w.down[id+1] || !slices.Contains(w.c.Brokers(), id+1)) && !w.acting[id+1] {
			which = append(which, id+1)
		}
	}
	w.mu.Unlock()
	if len(which) > 0 {
		broker := which[w.r.IntN(len(which))]
		w.change(broker, false, "start", func(ctx context.Context) error { return w.c.StartBroker(ctx, broker) })
	}
}

// change ends or starts a broker, with one change of a broker at a time.
func (w *world) change(broker int32, down bool, what string, do func(context.Context) error) {
	w.mu.Lock()
	w.acting[broker] = true
	w.mu.Unlock()
	w.background(what, broker, func(ctx context.Context) error {
		err := do(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.acting, broker)
		if down {
			w.down[broker] = true
		} else if err == nil || errors.Is(err, ErrBrokerRunning) { // then its end was refused
			delete(w.down, broker)
		}
		return err
	})
}

// produce appends a batch of one to three records, once.
func (w *world) produce(p int32) {
	acks := record.AcksAll
	if w.r.IntN(5) == 0 {
		acks = record.AcksLeader
	}
	var values []string
	var batchOf []*sent
	w.mu.Lock()
	for range 1 + w.r.IntN(3) {
		s := &sent{value: fmt.Sprint("v", len(w.records)), partition: p, begin: time.Since(w.tr.begin), acks: acks, offset: -1}
		w.records = append(w.records, s)
		values, batchOf = append(values, s.value), append(batchOf, s)
	}
	w.mu.Unlock()
	w.tr.add("produce %v to %d, acks %v", values, p, acks)
	w.c.Produce(&partition.ProduceRequest{
		TopicPartition: at(worldTopic, p), Batch: batch(values...), Acks: acks,
		Timeout: time.Millisecond + time.Duration(w.r.Int64N(int64(30*time.Second))),
		Done: func(r partition.ProduceResult) {
			w.tr.add("%v at %d: %v", values, r.BaseOffset, r.Err)
			w.mu.Lock()
			defer w.mu.Unlock()
			for i, s := range batchOf {
				if w.dead {
					break
				}
				if s.end, s.err = time.Since(w.tr.begin), r.Err; r.Err == nil {
					s.offset = r.BaseOffset + int64(i)
				}
			}
		},
	})
}
