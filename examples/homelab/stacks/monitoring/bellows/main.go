// Bellows takes Alertmanager's webhook and publishes one ntfy message per alert.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type hook struct {
	Alerts []struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"alerts"`
}

var client = &http.Client{Timeout: 5 * time.Second}

func publish(title, body, priority string) error {
	request, err := http.NewRequest(http.MethodPost, os.Getenv("NTFY_URL"), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Title", title)
	request.Header.Set("Priority", priority)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("NTFY_TOKEN"))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("ntfy answered %s", response.Status)
	}
	return nil
}

func receive(w http.ResponseWriter, r *http.Request) {
	var h hook
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&h); err != nil {
		http.Error(w, "not an Alertmanager webhook", http.StatusBadRequest)
		return
	}
	for _, alert := range h.Alerts {
		priority := "default"
		if alert.Labels["severity"] == "page" && alert.Status == "firing" {
			priority = "urgent"
		}
		title := alert.Status + ": " + alert.Labels["alertname"]
		if err := publish(title, alert.Annotations["summary"], priority); err != nil {
			// Alertmanager tries again on a 5xx, so nothing is lost while ntfy restarts.
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
}

func main() {
	check := flag.Bool("check", false, "ask a running bellows whether it is healthy")
	flag.Parse()
	if *check {
		response, err := client.Get("http://127.0.0.1" + os.Getenv("LISTEN") + "/healthz")
		if err != nil || response.StatusCode != http.StatusOK {
			os.Exit(1)
		}
		return
	}
	http.HandleFunc("POST /hook", receive)
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}
