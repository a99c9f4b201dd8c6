package admission

import (
	"fmt"
	"strings"
)

// Class says how much a render matters. A lower number is a better class; the
// zero value is [Interactive], which is also what a caller gets who names none.
type Class uint8

// The classes, best first. This is the one place where their order is written
// down: every rule compares the numbers.
const (
	Interactive Class = iota // somebody listens now
	High                     // somebody will listen in a moment
	Normal                   // wanted, but nobody waits
	Low                      // warming a cache

	// NumClasses is how many classes there are.
	NumClasses = iota
)

// Default is the class of a caller who names none.
const Default = Interactive

var classNames = [NumClasses]string{
	Interactive: "interactive",
	High:        "high",
	Normal:      "normal",
	Low:         "low",
}

// Classes returns every class, best first.
func Classes() [NumClasses]Class {
	var all [NumClasses]Class
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

// ParseClass returns the class of that name. The error names the classes there
// are, so that it can be shown to whoever wrote the configuration.
func ParseClass(name string) (Class, error) {
	for c, n := range classNames {
		if n == name {
			return Class(c), nil
		}
	}
	return Default, fmt.Errorf("unknown class %q: it is one of %s", name, strings.Join(classNames[:], ", "))
}

// String returns the name that [ParseClass] reads.
func (c Class) String() string {
	if !c.Known() {
		return fmt.Sprintf("class(%d)", uint8(c))
	}
	return classNames[c]
}

// Known reports whether c is one of the classes, and not a stray number.
func (c Class) Known() bool { return c < NumClasses }

// Outranks reports whether c is better than d.
func (c Class) Outranks(d Class) bool { return c < d }

// MarshalText writes the name, for JSON and for logs.
func (c Class) MarshalText() ([]byte, error) {
	if !c.Known() {
		return nil, fmt.Errorf("unknown class %d", uint8(c))
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads a name as [ParseClass] does.
func (c *Class) UnmarshalText(text []byte) error {
	parsed, err := ParseClass(string(text))
	if err != nil {
		return err
	}
	*c = parsed
	return nil
}
