package admission_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the results of the simulation to docs/")

const (
	docsPage = "../docs/admission.md"
	docsPlot = "../docs/admission.svg"

	tableBegins = "<!-- simulation: written by go test -run Simulation ./admission -update -->\n"
	tableEnds   = "<!-- end of simulation -->\n"
)

// kept compares the documentation with the results, or writes them there.
func kept(t *testing.T, all []result) {
	t.Helper()
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", docsPage)
	}
	for name, want := range map[string]string{
		docsPage: before + tableBegins + table(all) + tableEnds + after,
		docsPlot: plot(all),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is not what the simulation gives (%v): run go test -run Simulation ./admission -update", name, err)
		}
	}
}

// checkClaims holds the results to what the documentation says about them.
func checkClaims(t *testing.T, all []result) {
	t.Helper()
	for i := 0; i < len(all); i += len(simulatedPolicies) {
		fifo, classes, limited := all[i], all[i+1], all[i+2]
		if classes.p99 >= fifo.p99 || limited.p99 >= classes.p99 {
			t.Errorf("load %.1f: 99th percentiles of %s, %s and %s do not get better", fifo.load, fifo.p99, classes.p99, limited.p99)
		}
		if classes.refused[0] > 0.001 || limited.refused[0] > 0.001 {
			t.Errorf("load %.1f: interactive jobs were refused", fifo.load)
		}
	}
}

// A panel of the plot shows one figure: a group of bars per load, in it a bar
// per policy.
type panel struct {
	title string
	top   float64 // the value of the highest bar there can be, 0 for that of the highest there is
	value func(result) float64
	label func(float64) string
}

var panels = []panel{
	{
		"Interactive wait, 99th percentile", 0,
		func(r result) float64 { return r.p99.Seconds() },
		func(v float64) string { return fmt.Sprintf("%.0f s", v) },
	},
	{
		"Interactive renders refused", 100,
		func(r result) float64 { return 100 * r.refused[0] },
		func(v float64) string { return fmt.Sprintf("%.0f %%", v) },
	},
	{
		"Low renders refused", 100,
		func(r result) float64 { return 100 * r.refused[3] },
		func(v float64) string { return fmt.Sprintf("%.0f %%", v) },
	},
}

const (
	panelWidth  = 330
	panelHeight = 150 // of the highest bar
	barWidth    = 28  // a label of four figures is a little narrower
	groupWidth  = 3*barWidth + 16
)

var barColours = []string{"#9aa0a6", "#4285b4", "#1b4f72"}

// plot draws the results as SVG.
func plot(all []result) string {
	var b strings.Builder
	width := panelWidth*len(panels) + 20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d 260" width="%d" height="260" font-family="sans-serif" font-size="11">`+"\n", width, width)
	fmt.Fprintf(&b, `<rect width="%d" height="260" fill="white"/>`+"\n", width)
	for i, p := range panels {
		drawPanel(&b, 20+i*panelWidth, p, all)
	}
	for i, p := range simulatedPolicies {
		x := 20 + i*200
		fmt.Fprintf(&b, `<rect x="%d" y="238" width="12" height="12" fill="%s"/><text x="%d" y="248">%s</text>`+"\n",
			x, barColours[i], x+18, strings.ReplaceAll(p.name, "`", ""))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawPanel(b *strings.Builder, left int, p panel, all []result) {
	const base = 45 + panelHeight
	highest := p.top
	for _, r := range all {
		highest = max(highest, p.value(r))
	}
	fmt.Fprintf(b, `<text x="%d" y="20" font-size="13" font-weight="bold">%s</text>`+"\n", left, p.title)
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="black"/>`+"\n", left, base, left+panelWidth-30, base)
	for i, r := range all {
		group, bar := i/len(simulatedPolicies), i%len(simulatedPolicies)
		x := left + 8 + group*groupWidth + bar*(barWidth+1)
		height := p.value(r) / highest * panelHeight
		fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`, x, base-height, barWidth, height, barColours[bar])
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="middle" font-size="10">%s</text>`+"\n", x+barWidth/2, base-height-4, p.label(p.value(r)))
		if bar == 1 {
			fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">load %.1f</text>`+"\n", x+barWidth/2, base+16, r.load)
		}
	}
}
