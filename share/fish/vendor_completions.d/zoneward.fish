function _zoneward_completion
    # fish matches the whole word, but what is offered for --option=value is the value alone.
    set -l option (string match --regex -- '^--[^=]*=' (commandline -ct))
    set -l line (commandline -cp | string collect)
    for completion in (env _ZONEWARD_COMPLETE=fish_complete COMP_LINE="$line" zoneward)
        set -l candidates
        set -l parts (string split --max 1 , $completion)
        switch $parts[1]
            case dir
                set candidates (__fish_complete_directories $parts[2])
            case file
                set candidates (__fish_complete_path $parts[2])
            case plain
                set candidates $parts[2]
        end
        for candidate in $candidates
            printf '%s\n' "$option$candidate"
        end
    end
end

complete --no-files --command zoneward --arguments "(_zoneward_completion)"

