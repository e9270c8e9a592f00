package kafka

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
)

// fullBudgets are budgets without the memory that a client needs, and requests that wait for it.
var fullBudgets = map[string]struct {
	fill func(s *Server) (empty func())
	req  func() kmsg.Request
}{
	"bytes of the request": {
		func(s *Server) func() {
			n := s.memory.Budget.Size()
			s.memory.Budget.Charge(n, nil)
			return func() { s.memory.Budget.Give(n, nil) }
		},
		func() kmsg.Request { return filledRequest(DescribeGroups, 5) },
	},
	"work": {
		func(s *Server) func() {
			n := s.decoding.Size()
			s.decoding.Charge(n, nil)
			return func() { s.decoding.Give(n, nil) }
		},
		func() kmsg.Request { return filledRequest(DescribeGroups, 5) },
	},
	"answers": {
		func(s *Server) func() {
			s.answers[ListGroups].note(1 << 20)
			n := s.memory.Budget.Size() * 7 / 8
			s.memory.Budget.Charge(n, nil)
			return func() { s.memory.Budget.Give(n, nil) }
		},
		func() kmsg.Request { return filledRequest(ListGroups, 4) },
	},
	"parts of an answer": {
		func(s *Server) func() {
			n := s.memory.Budget.Size() * 7 / 8
			s.memory.Budget.Charge(n, nil)
			return func() { s.memory.Budget.Give(n, nil) }
		},
		func() kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.SetVersion(4)
			req.IncludeDocumentation = true
			for i := range 500 {
				req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: resourceGroup, ResourceName: string(rune('a' + i))})
			}
			return req
		},
	},
	"a fetch": {
		func(s *Server) func() {
			n := s.memory.Budget.Size() * 7 / 8
			s.memory.Budget.Charge(n, nil)
			return func() { s.memory.Budget.Give(n, nil) }
		},
		func() kmsg.Request { return fetchFrom("t", 0, 50<<20) },
	},
}

func TestShutdownEndsRequestsThatWaitForABudget(t *testing.T) {
	for name, full := range fullBudgets {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *groupServer) {
				empty := full.fill(s.Server)
				defer empty()
				for range 5 {
					c := dialGroups(t, s)
					c.send(full.req())
					go io.Copy(io.Discard, c.nc)
				}
				synctest.Wait()
				require.Len(t, s.conns, 5)
				begin := time.Now()
				require.NoError(t, s.Shutdown(t.Context()))
				require.Zero(t, time.Since(begin))
			})
		})
	}
}

func TestRequestsThatWaitForABudgetEndWhenTheirClientHasGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a system that reports the end of a client behind unread requests")
	}
	for name, full := range fullBudgets {
		t.Run(name, func(t *testing.T) {
			s, addr := hostileServer(t, Limits{})
			empty := full.fill(s)
			defer empty()
			c := dial(t, addr)
			c.send(full.req())
			c.nc.Close()
			require.Eventually(t, func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.conns) == 0
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// A request with little work is answered in that time.
func TestShutdownEndsWorkOnManyNamesAfterASecond(t *testing.T) {
	inBubble(t, Config{VersionCaps: map[int16]int16{int16(ListGroups): 4}}, func(t *testing.T, s *groupServer) { // with a table of its own
		works := func(names int) func(*call, kmsg.Request) kmsg.Response {
			return func(c *call, req kmsg.Request) kmsg.Response {
				for range each(c, make([]struct{}, names)) {
					time.Sleep(time.Millisecond)
				}
				return req.ResponseKind()
			}
		}
		s.apis[int16(DescribeConfigs)].serve, s.apis[int16(DescribeGroups)].serve = works(1<<40), works(1<<40)
		s.apis[int16(ListOffsets)].serve = works(500)
		for _, k := range []Key{DescribeConfigs, DescribeGroups} {
			dialGroups(t, s).send(filledRequest(k, 4))
		}
		short := dialGroups(t, s)
		req := filledRequest(ListOffsets, 4)
		sent := short.send(req)
		synctest.Wait()
		begin := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		short.receive(req, sent)
		require.NoError(t, <-ended)
		require.Equal(t, time.Second, time.Since(begin).Round(10*time.Millisecond))
	})
}
