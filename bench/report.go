package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
)

// limitOf returns the name of the subject that a result is compared with.
func limitOf(r Result) string {
	switch r.Workload {
	case "W2":
		if strings.HasPrefix(r.Case, "64w") {
			return "limit-groupcommit"
		}
		return "limit-prealloc"
	case "W1", "W3":
		return "limit-kafkav2"
	case "W4":
		return "limit-write-notify"
	case "W6", "W7":
		return "limit-wire"
	case "W8":
		return "limit-kafkav2-half"
	}
	return "limit-write"
}

func ratios(rs []Result) {
	for i := range rs {
		for _, l := range rs {
			if l.Workload != rs[i].Workload || l.Case != rs[i].Case || l.Subject != limitOf(rs[i]) || rs[i].Err != "" {
				continue
			}
			switch {
			case rs[i].RecsPerS > 0 && l.RecsPerS > 0:
				rs[i].Ratio = rs[i].RecsPerS / l.RecsPerS
			case rs[i].MS > 0 && l.MS > 0:
				rs[i].Ratio = l.MS / rs[i].MS
			case rs[i].P50 > 0 && l.P50 > 0:
				rs[i].Ratio = l.P50 / rs[i].P50
			}
		}
	}
}

func mergeRows(file string, now []Result) []Result {
	var old []Result
	b, err := os.ReadFile(file)
	must(err)
	must(json.Unmarshal(b, &old))
	key := func(r Result) string { return r.Workload + "/" + r.Case + "/" + r.Subject }
	for _, r := range now {
		if i := slices.IndexFunc(old, func(o Result) bool { return key(o) == key(r) }); i >= 0 {
			old[i] = r
		} else {
			old = append(old, r)
		}
	}
	return old
}

func markdown(rs []Result) string {
	var b strings.Builder
	var keys []string
	groups := map[string][]Result{}
	for _, r := range rs {
		k := r.Workload + " " + r.Case
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], r)
	}
	sort.SliceStable(keys, func(i, j int) bool { return workloadNumber(keys[i]) < workloadNumber(keys[j]) })
	for _, k := range keys {
		g := groups[k]
		score := func(r Result) float64 {
			if r.RecsPerS > 0 {
				return -r.RecsPerS
			}
			return r.MS*1000 + r.P50
		}
		sort.SliceStable(g, func(i, j int) bool {
			if (g[i].Err == "") != (g[j].Err == "") {
				return g[i].Err == ""
			}
			return score(g[i]) < score(g[j])
		})
		fmt.Fprintf(&b, "\n### %s\n\n| subject | records/s | MB/s | ms | p50 us | p99 us | p99.9 us | of limit | CPU ns/rec | allocs/rec | RSS MB | spread |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n", k)
		for _, r := range g {
			if r.Err != "" {
				fmt.Fprintf(&b, "| %s | %s ||||||||||\n", r.Subject, r.Err)
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %.2f | %.0f | %.0f%% |\n", r.Subject, num(r.RecsPerS), num(r.MBPerS),
				num(r.MS), num(r.P50), num(r.P99), num(r.P999), num(r.Ratio), num(r.CPUNs), r.Allocs, r.RSSMB, r.SpreadPct)
		}
	}
	return b.String()
}

// workloadNumber returns the number of a workload: 10 for "W10 ...".
func workloadNumber(key string) (n int) {
	fmt.Sscanf(key, "W%d", &n)
	return n
}

func num(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
