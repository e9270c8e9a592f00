package picture

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Timeline has parallel lanes. Its scale is as large as fits, and time in which nothing begins or
// ends is folded: it has the width of foldWidth, and its length stands above.
type Timeline struct {
	Label string // a description, for readers without the picture
	Zero  time.Time
	Lanes []Lane
}

// A Lane is a row of a Timeline.
type Lane struct {
	Name string
	Bars []Bar // in any order; they may overlap
}

// A Bar is a period in a lane, or an instant, if Ended is not after Began.
type Bar struct {
	Began, Ended time.Time
	Label        string // drawn if it fits
	Title        string // shown when a pointer rests on the bar
	Kind         Kind
	Struck       bool // framed: a fault has hit it
}

// A Kind is a class of the stylesheet.
type Kind string

// Kinds of bars.
const (
	Work   Kind = "work"   // a request that was answered
	Wait   Kind = "wait"   // a request that waited for news
	Change Kind = "change" // a rebalance, or a broker that went or came
	Error  Kind = "error"
	Gone   Kind = "gone" // a request without an answer
	Call   Kind = "call" // of the test
)

const (
	plotWidth = 1180.0
	nameWidth = 310.0
	foldWidth = 46.0
	minWidth  = 4.0
	laneStep  = 24.0
	barHeight = 18.0
	headRoom  = 34.0
	charWidth = 6.6
)

// SVG returns the picture.
func (t *Timeline) SVG() string {
	s := newScale(t)
	var b strings.Builder
	width, height := nameWidth+plotWidth+20, headRoom+laneStep*float64(len(t.Lanes))+10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" aria-label="%s" viewBox="0 0 %s %s" width="%s" height="%s">`+"\n",
		text(t.Label), px(width), px(height), px(width), px(height))
	s.draw(&b, height)
	for i, l := range t.Lanes {
		y := headRoom + laneStep*float64(i)
		fmt.Fprintf(&b, `<text x="%s" y="%s" text-anchor="end">%s</text>`, px(nameWidth-10), px(y+14), text(cut(l.Name, 44)))
		fmt.Fprintf(&b, `<line class="line" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", px(nameWidth), px(y+21), px(nameWidth+plotWidth), px(y+21))
		l.draw(&b, s, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws the bars of a lane whose upper edge is y. A label is drawn if the bar, or the space up
// to the next one, has room for it.
func (l *Lane) draw(b *strings.Builder, s *scale, y float64) {
	bars := slices.Clone(l.Bars)
	slices.SortStableFunc(bars, func(a, b Bar) int { return a.Began.Compare(b.Began) })
	for i, bar := range bars {
		x, w := s.place(bar)
		class := string(bar.Kind)
		if bar.Struck {
			class += " struck"
		}
		fmt.Fprintf(b, `<g><title>%s</title><rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2"/>`, text(bar.Title), class, px(x), px(y+2), px(w), px(barHeight))
		need, free := charWidth*float64(len([]rune(bar.Label)))+6, plotWidth+nameWidth-x
		if i+1 < len(bars) {
			next, _ := s.place(bars[i+1])
			free = next - x
		}
		switch {
		case bar.Label == "":
		case need <= w:
			fmt.Fprintf(b, `<text x="%s" y="%s">%s</text>`, px(x+3), px(y+15), text(bar.Label))
		case need+w <= free:
			fmt.Fprintf(b, `<text x="%s" y="%s">%s</text>`, px(x+w+3), px(y+15), text(bar.Label))
		}
		b.WriteString("</g>\n")
	}
}

// A scale maps times to coordinates: at[i] is at x[i], and in between it is linear.
type scale struct {
	at   []time.Time
	x    []float64
	perS float64 // coordinates a second, where nothing is folded
}

func newScale(t *Timeline) *scale {
	s := &scale{at: []time.Time{t.Zero}}
	for _, l := range t.Lanes {
		for _, bar := range l.Bars {
			s.at = append(s.at, bar.Began)
			if bar.Ended.After(bar.Began) {
				s.at = append(s.at, bar.Ended)
			}
		}
	}
	slices.SortFunc(s.at, time.Time.Compare)
	s.at = slices.CompactFunc(s.at, time.Time.Equal)
	width := func(perS float64) (sum float64) {
		for i := 1; i < len(s.at); i++ {
			sum += min(foldWidth, perS*s.at[i].Sub(s.at[i-1]).Seconds())
		}
		return sum
	}
	const room = plotWidth - minWidth
	low, high := 0.0, 1e6
	if width(high) > room {
		for range 60 {
			if middle := math.Sqrt(max(low, 1e-9) * high); width(middle) <= room {
				low = middle
			} else {
				high = middle
			}
		}
		s.perS = low
	} else {
		s.perS = high
	}
	s.x = append(s.x, nameWidth)
	for i := 1; i < len(s.at); i++ {
		s.x = append(s.x, s.x[i-1]+min(foldWidth, s.perS*s.at[i].Sub(s.at[i-1]).Seconds()))
	}
	return s
}

// of returns the coordinate of a time.
func (s *scale) of(at time.Time) float64 {
	i, found := slices.BinarySearchFunc(s.at, at, time.Time.Compare)
	switch {
	case found:
		return s.x[i]
	case i == 0:
		return s.x[0]
	case i == len(s.at):
		return s.x[i-1]
	}
	part := float64(at.Sub(s.at[i-1])) / float64(s.at[i].Sub(s.at[i-1]))
	return s.x[i-1] + part*(s.x[i]-s.x[i-1])
}

// place returns the left edge and the width of a bar.
func (s *scale) place(b Bar) (x, w float64) {
	x = s.of(b.Began)
	if b.Ended.After(b.Began) {
		w = s.of(b.Ended) - x
	}
	return x, max(w, minWidth)
}

// draw draws the folds with their lengths, and ticks with the time since Zero.
func (s *scale) draw(b *strings.Builder, height float64) {
	room := nameWidth // x from which a label has room
	for i := 1; i < len(s.at); i++ {
		gap := s.at[i].Sub(s.at[i-1])
		if s.perS*gap.Seconds() <= foldWidth {
			continue
		}
		x := s.x[i-1]
		fmt.Fprintf(b, `<rect class="fold" x="%s" y="%s" width="%s" height="%s"/>`, px(x+minWidth), px(headRoom-4), px(s.x[i]-x-minWidth), px(height-headRoom))
		if x >= room {
			fmt.Fprintf(b, `<text class="faint" x="%s" y="%s" text-anchor="middle">%s</text>`+"\n", px((x+s.x[i])/2+minWidth/2), px(headRoom-8), text(Length(gap)))
			room = s.x[i]
		}
	}
	room = nameWidth
	for i, at := range s.at {
		if s.x[i] < room {
			continue
		}
		label := "+" + Length(at.Sub(s.at[0]))
		fmt.Fprintf(b, `<line class="tick" x1="%s" y1="16" x2="%s" y2="%s"/>`, px(s.x[i]), px(s.x[i]), px(height))
		fmt.Fprintf(b, `<text class="faint" x="%s" y="11">%s</text>`+"\n", px(s.x[i]), text(label))
		room = s.x[i] + max(80, charWidth*float64(len(label))+8)
	}
}

// Length is a duration as text with two or three digits.
func Length(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= 100*time.Millisecond:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
