// Fills the list of versions from versions.js, which lies beside the folders of all versions: a page of an old version
// knows of those that came later. No request is made, so that it works from file://, too.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const place = document.querySelector(".versions");
  const versions = window.zonewardVersions;
  if (!place || !versions) return;
  const { version, page, root } = place.dataset;
  // The same page of the other version, if it has it, else its first page.
  const address = (other) => root + other.name + "/" + (other.pages.includes(page) ? page : "index.html");

  const select = place.querySelector("select");
  select.replaceChildren(...versions.map((each) => {
    const option = new Option(each.title, each.name, false, each.name === version);
    option.dataset.address = address(each);
    return option;
  }));
  select.disabled = false;
  select.addEventListener("change", () => location.assign(select.selectedOptions[0].dataset.address));

  const newest = versions.find((each) => each.newest);
  if (newest && newest.name !== version) {
    const link = document.createElement("a");
    link.href = address(newest);
    link.textContent = "Read " + newest.name + ", the newest release";
    const note = document.createElement("p");
    note.className = "other-version";
    note.append(version === "dev" ? "This page is about a version that is not released yet. "
      : "This page is about an old version. ", link, ".");
    document.querySelector("article[role=main]")?.prepend(note);
  }
});
