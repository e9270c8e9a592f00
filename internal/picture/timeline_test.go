package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var zero = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return zero.Add(d) }

// A rect is a bar, or a fold, of a picture.
type rect struct {
	class      string
	x, y, w, h float64
	title      string
}

// drawn returns the bars of a picture, which must be valid XML.
func drawn(t require.TestingT, svg string) (bars, folds []rect, texts []string) {
	d := xml.NewDecoder(strings.NewReader(svg))
	title, in := "", ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return bars, folds, texts
		}
		require.NoError(t, err, svg)
		switch e := token.(type) {
		case xml.StartElement:
			in = e.Name.Local
			if in != "rect" {
				continue
			}
			r := rect{title: title}
			for _, a := range e.Attr {
				v, _ := strconv.ParseFloat(a.Value, 64)
				switch a.Name.Local {
				case "class":
					r.class = a.Value
				case "x":
					r.x = v
				case "y":
					r.y = v
				case "width":
					r.w = v
				case "height":
					r.h = v
				}
			}
			if r.class == "fold" {
				folds = append(folds, r)
			} else {
				bars = append(bars, r)
			}
		case xml.CharData:
			switch in {
			case "title":
				title = string(e)
			case "text":
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			in = ""
		}
	}
}

func TestTimeInWhichNothingHappensIsFolded(t *testing.T) {
	tl := &Timeline{Zero: zero, Lanes: []Lane{{Name: "shop", Bars: []Bar{
		{Began: after(0), Ended: after(time.Second), Label: "Fetch", Kind: Work},
		{Began: after(time.Hour), Ended: after(time.Hour + time.Second), Label: "Fetch", Kind: Error, Struck: true},
	}}}}
	bars, folds, texts := drawn(t, tl.SVG())
	require.Len(t, bars, 2)
	require.InDelta(t, bars[0].w, bars[1].w, 0.2, "a second is as wide as another one")
	require.Equal(t, "error struck", bars[1].class)
	require.InDelta(t, foldWidth, bars[1].x-bars[0].x-bars[0].w, 0.2)
	require.NotEmpty(t, folds)
	require.Contains(t, texts, "1h")
	require.Contains(t, texts, "+0s")
	require.Contains(t, texts, "shop")
}

func TestWidthIsTheShareOfTheTimeWhereNothingIsFolded(t *testing.T) {
	var bars []Bar
	for i := range 100 {
		began := after(time.Duration(i) * 10 * time.Millisecond)
		bars = append(bars, Bar{Began: began, Ended: began.Add(time.Duration(i%4+1) * time.Millisecond), Kind: Wait})
	}
	tl := &Timeline{Zero: zero, Lanes: []Lane{{Name: "shop", Bars: bars}}}
	got, folds, _ := drawn(t, tl.SVG())
	require.Empty(t, folds)
	require.InDelta(t, 99*(got[1].x-got[0].x), got[99].x-got[0].x, 10)
	require.Greater(t, got[99].x, nameWidth+plotWidth*0.9, "it uses the room")
}

// Whatever the bars are, they are in the plot, in the order of their times, and the picture is valid
// XML.
func TestEveryBarIsInThePlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tl := &Timeline{Zero: zero, Label: rapid.String().Draw(t, "label")}
		for range rapid.IntRange(0, 4).Draw(t, "lanes") {
			l := Lane{Name: rapid.String().Draw(t, "name")}
			for range rapid.IntRange(0, 20).Draw(t, "bars") {
				began := after(time.Duration(rapid.Int64Range(0, int64(200*365*24*time.Hour)).Draw(t, "began")))
				took := time.Duration(rapid.Int64Range(-1000, int64(24*time.Hour)).Draw(t, "took"))
				l.Bars = append(l.Bars, Bar{Began: began, Ended: began.Add(took), Label: rapid.String().Draw(t, "text"), Title: rapid.String().Draw(t, "title"), Kind: Work})
			}
			tl.Lanes = append(tl.Lanes, l)
		}
		bars, _, _ := drawn(t, tl.SVG())
		n, last := 0, 0.0
		for _, l := range tl.Lanes {
			last = 0
			for range l.Bars {
				b := bars[n]
				require.GreaterOrEqual(t, b.x, nameWidth)
				require.LessOrEqual(t, b.x+b.w, nameWidth+plotWidth+0.1)
				require.GreaterOrEqual(t, b.w, minWidth)
				require.GreaterOrEqual(t, b.x, last)
				n, last = n+1, b.x
			}
		}
		require.Len(t, bars, n)
	})
}

func TestLengthHasThreeDigitsAtMost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234: "1µs", 12_345_678: "12.3ms", 1_234_567_890: "1.23s", 12_345_678_900: "12.3s", 90 * time.Second: "1m30s",
		time.Minute: "1m", 3 * time.Hour: "3h", 3*time.Hour + 10*time.Minute + 5*time.Second: "3h10m",
	} {
		require.Equal(t, want, Length(d))
	}
}

func FuzzTextIsValidXML(f *testing.F) {
	f.Add("a<b>&\"'\x00\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		d := xml.NewDecoder(strings.NewReader(`<a b="` + text(s) + `">` + text(s) + `</a>`))
		for {
			if _, err := d.Token(); err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
		}
	})
}
