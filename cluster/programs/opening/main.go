// Command opening opens new connections at a steady rate, whatever became of those before, and counts what became of each.
//
//	opening URL RATE SECONDS [TIMEOUT]
//
// A connection per request, RATE a second. Each failure and each request that took over 0.8 s is a line as it happens;
// the last line is JSON: {"sent": 3000, "failed": 2, "slow": 0, "reasons": {"connection refused": 2},
// "answers": {"web-1": 2998}}: how many answers had which body.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const slow = 800 * time.Millisecond

var reasons = []string{
	"connection refused", "connection reset", "no route to host", "deadline exceeded", "i/o timeout", "EOF",
}

type outcome struct {
	Sent    int            `json:"sent"`
	Failed  int            `json:"failed"`
	Slow    int            `json:"slow"`
	Reasons map[string]int `json:"reasons"`
	Answers map[string]int `json:"answers"`
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: opening URL RATE SECONDS [TIMEOUT]")
		os.Exit(2)
	}
	url, rate, seconds := os.Args[1], number(os.Args[2]), number(os.Args[3])
	timeout := 5 * time.Second
	if len(os.Args) > 4 {
		timeout = time.Duration(number(os.Args[4]) * float64(time.Second))
	}

	var lock sync.Mutex
	var open sync.WaitGroup
	told := outcome{Reasons: map[string]int{}, Answers: map[string]int{}}
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	for end := time.After(time.Duration(seconds * float64(time.Second))); ; {
		select {
		case <-end:
			open.Wait()
			line, _ := json.Marshal(told)
			fmt.Println(string(line))
			return
		case <-ticks.C:
			told.Sent++
			open.Add(1)
			go func() {
				defer open.Done()
				began := time.Now()
				host, err := ask(url, timeout)
				took := time.Since(began)
				lock.Lock()
				defer lock.Unlock()
				switch {
				case err != nil:
					told.Failed++
					told.Reasons[reason(err)]++
					fmt.Printf("%s failed after %.3f s: %v\n", began.UTC().Format("15:04:05.000"), took.Seconds(), err)
				case took > slow:
					told.Slow++
					fmt.Printf("%s slow: %.3f s from %s\n", began.UTC().Format("15:04:05.000"), took.Seconds(), host)
					fallthrough
				default:
					told.Answers[host]++
				}
			}()
		}
	}
}

// ask returns the body of one answer, by a connection of its own.
func ask(url string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), err
}

func reason(err error) string {
	for _, each := range reasons {
		if strings.Contains(err.Error(), each) {
			return each
		}
	}
	return "other"
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || value <= 0 {
		fmt.Fprintf(os.Stderr, "opening: a number above 0 is expected, got %q\n", text)
		os.Exit(2)
	}
	return value
}
