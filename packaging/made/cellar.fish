# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_cellar_global_optspecs
    string join \n config= memory= threads= memcached= resp= databases= keep= state= max-downtime= state-verify= password= users= insecure= notify-keyspace-events= tracking-table-max-keys= http= http-token= http-hosts= console-write= unix= unix-mode= control= takeover= tls-cert= tls-key= tls-client-ca= max-connections= client-memory= max-value= idle-timeout= login-timeout= write-timeout= lame-duck= drain-timeout= release-memory= expire-effort= default-ttl= lease-timeout= enable-debug-commands= script-time-limit= watchdog= otlp= otlp-interval= cluster= node= log-level= log-format= print-config help-all h/help V/version
end

function __fish_cellar_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_cellar_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_cellar_using_subcommand
    set -l cmd (__fish_cellar_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c cellar -n "__fish_cellar_needs_command" -l config -d 'Settings file in TOML; its keys are the flags with _ for -. A flag goes before a CELLAR_* variable, a variable before the file.' -r
complete -c cellar -n "__fish_cellar_needs_command" -l memory -d 'Memory of the cache: items, index and bookkeeping together. auto = what the limit of its control group leaves after the program, --max-connections and --client-memory; without such a limit half of the machine\'s. [default: 256MiB]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l threads -d 'Event loops; each serves its own connections, all share the cache. The default is no more than the control group\'s quota of processor time has whole processors. [default: one per core]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l memcached -d 'Address for the memcached protocol, host:port, tls:host:port or unix:/path; several with commas between them. Port 0 takes a free one. With --users a client\'s first command is its login. [default: 127.0.0.1:11211]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l resp -d 'Address for the Redis protocol, host:port, tls:host:port or unix:/path; several with commas between them. Port 0 takes a free one. [default: 127.0.0.1:6379]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l databases -d 'Key spaces that SELECT knows, at most 10000; one that is not used costs nothing. Database 0 is what memcached sees. [default: 16]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l keep -d 'Databases with a share of --memory of their own, at least 1 MiB: nothing of these is evicted, a store that does not fit is refused (-OOM). 3,4:64MiB is for two together, 3:64MiB,4:1MiB for each; at most 8 shares and half of the memory, not database 0. [default: none]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l state -d 'Directory, on a tmpfs, in which the cache\'s memory outlives the server: after a restart, a crash or kill -9 the next one goes on with it. Nobody but its owner may use it; one server at a time. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l max-downtime -d 'With --state: longer without a server than this, the next one begins empty. What was changed in the store behind the cache meanwhile, nobody has told it. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l state-verify -d 'With --state: counts all that is restored entry by entry, and begins empty if a sum is wrong. It takes as long as a few reads of each item. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l password -d 'What clients of the Redis protocol have to say (AUTH, HELLO) before anything else. Better given as a variable or in the file than as a flag, which others can read. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l users -d 'File of users in TOML, for all protocols: names, hashes of passwords, roles, prefixes of keys. Nobody but its owner and group may read it. Read anew when it changes and at SIGHUP. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l insecure -d 'Lets addresses that other machines reach be open to whoever comes. Without it each of them needs --users, the password or token of its protocol, or client certificates. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l notify-keyspace-events -d 'Which changes of keys are published, in Redis\'s letters: K (channels called like the key) or E (like the event), with g $ s h z x e m n, or A for most of them. AKE publishes all but m and n. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l tracking-table-max-keys -d 'Key names remembered for clients that asked to be told of changes (CLIENT TRACKING); above it, or above 256 MiB, some are dropped and their readers told. 0 = bounded by the bytes alone. [default: 1000000]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l http -d 'Address for HTTP, host:port, tls:host:port or unix:/path: the cache under /v1/cache, figures and the console; several with commas between them. Port 0 takes a free one. [default: 127.0.0.1:8080]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l http-token -d 'What requests over HTTP have to bear (`Authorization: Bearer ...`), but for /healthz and /readyz. Better given as a variable or in the file than as a flag, which others can read. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l http-hosts -d 'Names that requests over HTTP may have in their field Host besides addresses, localhost, this machine\'s own name and names given to --http; several with commas between them, *.cache.example for all below one, * for any. Without a port. A request with another name needs the token: it may come from a web page that has made its own name lead here. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l console-write -d 'Lets the console change things: without it the console only shows. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l unix -d 'UNIX socket for the memcached protocol, short for unix:PATH in --memcached. The socket file of a server that is gone is replaced, that of a living one is an error. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l unix-mode -d 'Permission bits of the UNIX sockets, in octal. [default: 700]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l control -d 'UNIX socket by which a successor takes over (--takeover), for programs of the same user alone. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l takeover -d 'Takes over from the server at --control: its listening sockets, with whoever waits there, and its clients. It serves until this one is ready, and goes on if that fails. Items do not come along: the cache starts empty. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l tls-cert -d 'Certificate for addresses with tls:, in PEM, its issuers behind it; several with commas between them, chosen by the name that the client asks for, else the first. Read anew on SIGHUP, and when the file has changed. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l tls-key -d 'Private key of the certificate, in PEM; of several in the same order. A file that every user of the machine can read is refused. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l tls-client-ca -d 'Authorities, in PEM, one of which has to have signed the certificate that each client over TLS then has to show. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l max-connections -d 'Most connections at one time; a further one is told so and closed. The limit of open files is raised to fit where the system allows it; if not, the default gives way and a number that was asked for is an error. [default: 10000]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l client-memory -d 'Most memory beside --memory that clients have the server hold: requests on their way, replies that wait, transactions, subscriptions. Above it connections are closed, first the largest of those that do not get on. Also the longest command, a value of SET not counted. auto = an eighth of --memory, from 64MiB to 1GiB. [default: auto]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l max-value -d 'Longest value, at most 512MiB and half of --memory; auto = 1MiB over memcached\'s protocol, as there, 4MiB for what a command makes of an old value (APPEND, collections), and no limit of its own for the rest. [default: auto]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l idle-timeout -d 'Closes a connection that sent nothing for this long, to the second; 0 = never. [default: 0]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l login-timeout -d 'Where a login is needed, closes a connection on which nobody has logged in for this long, to the second; over HTTP, one without a request for so long, as long as none was let in; 0 = never. [default: 10s]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l write-timeout -d 'Drops a client that leaves its replies unread, or stops in the middle of a request, for this long. While a quarter of the cache is held by values in transfer, 1 s. [default: 30s]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l lame-duck -d 'How long a server that was told to stop (SIGTERM) goes on as before while /readyz says 503, so that whoever balances the load sends nobody here any more; then it drains. A second signal ends it at once. [default: 0]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l drain-timeout -d 'Longest time that a server told to stop takes to answer what it has received. [default: 5s]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l release-memory -d 'Gives memory that holds nothing live back to the system within seconds; what is partly dead is compacted for it. Without it the cache keeps such memory for items to come. CONFIG SET release-memory changes it, MEMORY PURGE does it once. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l expire-effort -d 'How hard the cache looks for expired items whose memory nobody needs, 1 to 10: with 1 at most 3 % of what is held is dead, with 10 half a per cent, for three times the copies of what lives beside them. CONFIG SET active-expire-effort changes it. [default: 1]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l default-ttl -d 'How long items live that are stored without a time to live; 0 = until they are evicted. http=10m is for one protocol, resp:3=1h for one database; several with commas between them, the narrowest counts. CONFIG SET default-ttl changes it for what is stored from then on. [default: 0]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l lease-timeout -d 'How long the winner of a lease (meta get with N or R) keeps others out before the next caller may win it. [default: 30s]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l enable-debug-commands -d 'Answers DEBUG, with which tests make the server sleep or hold its upkeep. Not for servers that others use. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l script-time-limit -d 'Ends a script (EVAL) with an error that runs longer than this; nobody else is served meanwhile. What it has written stays. [default: 5s]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l watchdog -d 'Ends the process (SIGABRT) when an event loop has stood still for this long: what started it starts it anew. More than --script-time-limit. A loop that stands still for a second is logged and counted in any case. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l otlp -d 'Sends all figures of /metrics to a collector of OpenTelemetry, by OTLP over HTTP: http://127.0.0.1:4318. Beyond this machine it is for a collector beside the server to encrypt. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l otlp-interval -d 'How often; at least 1s. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l cluster -d 'Makes this server a node of a cluster whose nodes are listed in a file, file:PATH, read anew when it changes: a line is a node\'s name, resp=ADDR memcached=ADDR http=ADDR as its clients reach it (tls:ADDR behind a comma for those over TLS), and weight=N. Each key is kept by one node, by the slots of Redis Cluster; database 0 alone is there. See docs/guide/many-machines.md. [default: off]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l node -d 'What this node is called in the list of --cluster. [default: none]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l log-level -d 'Least severe log lines that are printed: off, error, warn, info, debug, trace. [default: info]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l log-format -d 'How log lines on standard error look. [default: text]' -r
complete -c cellar -n "__fish_cellar_needs_command" -l print-config -d 'Prints all settings with their origins as a settings file, and exits.'
complete -c cellar -n "__fish_cellar_needs_command" -l help-all -d 'Prints every flag with all that it does.'
complete -c cellar -n "__fish_cellar_needs_command" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_needs_command" -s V -l version -d 'Print version'
complete -c cellar -n "__fish_cellar_needs_command" -f -a "top" -d 'Shows a running server\'s figures live in a terminal; q quits'
complete -c cellar -n "__fish_cellar_needs_command" -f -a "migrate" -d 'Helps to move from another server'
complete -c cellar -n "__fish_cellar_needs_command" -f -a "healthcheck" -d 'Asks a running server whether it is ready: exit status 0, or 1 with the reason'
complete -c cellar -n "__fish_cellar_needs_command" -f -a "doctor" -d 'Tells what would keep this machine from the speed of a server with these settings, and the remedy: exit status 0, or 1 if there is something'
complete -c cellar -n "__fish_cellar_needs_command" -f -a "hash-password" -d 'Reads a password from standard input and prints its hash, for the file of users'
complete -c cellar -n "__fish_cellar_using_subcommand top" -l target -d 'The server\'s HTTP address (--http); also https://... and unix:/path.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l tls-ca -d 'Who has signed the certificate of a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l tls-cert -d 'The certificate to show to a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l tls-key -d 'The key of that certificate, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l user -d 'Who asks, if the server has users.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l token -d 'The server\'s token (--http-token).' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l interval -d 'Time between two looks, 100ms or more.' -r
complete -c cellar -n "__fish_cellar_using_subcommand top" -l once -d 'Prints the figures of one interval and exits; so does output to no terminal.'
complete -c cellar -n "__fish_cellar_using_subcommand top" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and not __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and not __fish_seen_subcommand_from check" -f -a "check" -d 'Asks a running Redis, Valkey or memcached what it is used for, and lists what of it is not here; it only reads. Exit status: 0 all is here, 1 something is missing, 2 no answer'
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and __fish_seen_subcommand_from check" -l tls-ca -d 'Who has signed the certificate of a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and __fish_seen_subcommand_from check" -l tls-cert -d 'The certificate to show to a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and __fish_seen_subcommand_from check" -l tls-key -d 'The key of that certificate, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and __fish_seen_subcommand_from check" -l json -d 'Prints JSON.'
complete -c cellar -n "__fish_cellar_using_subcommand migrate; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -l config -d 'Settings file in TOML; its keys are the flags with _ for -. A flag goes before a CELLAR_* variable, a variable before the file.' -r
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -l target -d 'Where to ask: http=127.0.0.1:8080, resp=tls:cache.example:6379, memcached=unix:/run/cellar.sock.' -r
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -l tls-ca -d 'Who has signed the certificate of a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -l tls-cert -d 'The certificate to show to a server over TLS, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -l tls-key -d 'The key of that certificate, in PEM.' -r
complete -c cellar -n "__fish_cellar_using_subcommand healthcheck" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l config -d 'Settings file in TOML; its keys are the flags with _ for -. A flag goes before a CELLAR_* variable, a variable before the file.' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l memory -d 'Memory of the cache: items, index and bookkeeping together. auto = what the limit of its control group leaves after the program, --max-connections and --client-memory; without such a limit half of the machine\'s. [default: 256MiB]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l threads -d 'Event loops; each serves its own connections, all share the cache. The default is no more than the control group\'s quota of processor time has whole processors. [default: one per core]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l memcached -d 'Address for the memcached protocol, host:port, tls:host:port or unix:/path; several with commas between them. Port 0 takes a free one. With --users a client\'s first command is its login. [default: 127.0.0.1:11211]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l resp -d 'Address for the Redis protocol, host:port, tls:host:port or unix:/path; several with commas between them. Port 0 takes a free one. [default: 127.0.0.1:6379]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l databases -d 'Key spaces that SELECT knows, at most 10000; one that is not used costs nothing. Database 0 is what memcached sees. [default: 16]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l keep -d 'Databases with a share of --memory of their own, at least 1 MiB: nothing of these is evicted, a store that does not fit is refused (-OOM). 3,4:64MiB is for two together, 3:64MiB,4:1MiB for each; at most 8 shares and half of the memory, not database 0. [default: none]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l state -d 'Directory, on a tmpfs, in which the cache\'s memory outlives the server: after a restart, a crash or kill -9 the next one goes on with it. Nobody but its owner may use it; one server at a time. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l max-downtime -d 'With --state: longer without a server than this, the next one begins empty. What was changed in the store behind the cache meanwhile, nobody has told it. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l state-verify -d 'With --state: counts all that is restored entry by entry, and begins empty if a sum is wrong. It takes as long as a few reads of each item. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l password -d 'What clients of the Redis protocol have to say (AUTH, HELLO) before anything else. Better given as a variable or in the file than as a flag, which others can read. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l users -d 'File of users in TOML, for all protocols: names, hashes of passwords, roles, prefixes of keys. Nobody but its owner and group may read it. Read anew when it changes and at SIGHUP. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l insecure -d 'Lets addresses that other machines reach be open to whoever comes. Without it each of them needs --users, the password or token of its protocol, or client certificates. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l notify-keyspace-events -d 'Which changes of keys are published, in Redis\'s letters: K (channels called like the key) or E (like the event), with g $ s h z x e m n, or A for most of them. AKE publishes all but m and n. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l tracking-table-max-keys -d 'Key names remembered for clients that asked to be told of changes (CLIENT TRACKING); above it, or above 256 MiB, some are dropped and their readers told. 0 = bounded by the bytes alone. [default: 1000000]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l http -d 'Address for HTTP, host:port, tls:host:port or unix:/path: the cache under /v1/cache, figures and the console; several with commas between them. Port 0 takes a free one. [default: 127.0.0.1:8080]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l http-token -d 'What requests over HTTP have to bear (`Authorization: Bearer ...`), but for /healthz and /readyz. Better given as a variable or in the file than as a flag, which others can read. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l http-hosts -d 'Names that requests over HTTP may have in their field Host besides addresses, localhost, this machine\'s own name and names given to --http; several with commas between them, *.cache.example for all below one, * for any. Without a port. A request with another name needs the token: it may come from a web page that has made its own name lead here. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l console-write -d 'Lets the console change things: without it the console only shows. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l unix -d 'UNIX socket for the memcached protocol, short for unix:PATH in --memcached. The socket file of a server that is gone is replaced, that of a living one is an error. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l unix-mode -d 'Permission bits of the UNIX sockets, in octal. [default: 700]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l control -d 'UNIX socket by which a successor takes over (--takeover), for programs of the same user alone. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l takeover -d 'Takes over from the server at --control: its listening sockets, with whoever waits there, and its clients. It serves until this one is ready, and goes on if that fails. Items do not come along: the cache starts empty. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l tls-cert -d 'Certificate for addresses with tls:, in PEM, its issuers behind it; several with commas between them, chosen by the name that the client asks for, else the first. Read anew on SIGHUP, and when the file has changed. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l tls-key -d 'Private key of the certificate, in PEM; of several in the same order. A file that every user of the machine can read is refused. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l tls-client-ca -d 'Authorities, in PEM, one of which has to have signed the certificate that each client over TLS then has to show. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l max-connections -d 'Most connections at one time; a further one is told so and closed. The limit of open files is raised to fit where the system allows it; if not, the default gives way and a number that was asked for is an error. [default: 10000]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l client-memory -d 'Most memory beside --memory that clients have the server hold: requests on their way, replies that wait, transactions, subscriptions. Above it connections are closed, first the largest of those that do not get on. Also the longest command, a value of SET not counted. auto = an eighth of --memory, from 64MiB to 1GiB. [default: auto]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l max-value -d 'Longest value, at most 512MiB and half of --memory; auto = 1MiB over memcached\'s protocol, as there, 4MiB for what a command makes of an old value (APPEND, collections), and no limit of its own for the rest. [default: auto]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l idle-timeout -d 'Closes a connection that sent nothing for this long, to the second; 0 = never. [default: 0]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l login-timeout -d 'Where a login is needed, closes a connection on which nobody has logged in for this long, to the second; over HTTP, one without a request for so long, as long as none was let in; 0 = never. [default: 10s]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l write-timeout -d 'Drops a client that leaves its replies unread, or stops in the middle of a request, for this long. While a quarter of the cache is held by values in transfer, 1 s. [default: 30s]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l lame-duck -d 'How long a server that was told to stop (SIGTERM) goes on as before while /readyz says 503, so that whoever balances the load sends nobody here any more; then it drains. A second signal ends it at once. [default: 0]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l drain-timeout -d 'Longest time that a server told to stop takes to answer what it has received. [default: 5s]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l release-memory -d 'Gives memory that holds nothing live back to the system within seconds; what is partly dead is compacted for it. Without it the cache keeps such memory for items to come. CONFIG SET release-memory changes it, MEMORY PURGE does it once. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l expire-effort -d 'How hard the cache looks for expired items whose memory nobody needs, 1 to 10: with 1 at most 3 % of what is held is dead, with 10 half a per cent, for three times the copies of what lives beside them. CONFIG SET active-expire-effort changes it. [default: 1]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l default-ttl -d 'How long items live that are stored without a time to live; 0 = until they are evicted. http=10m is for one protocol, resp:3=1h for one database; several with commas between them, the narrowest counts. CONFIG SET default-ttl changes it for what is stored from then on. [default: 0]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l lease-timeout -d 'How long the winner of a lease (meta get with N or R) keeps others out before the next caller may win it. [default: 30s]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l enable-debug-commands -d 'Answers DEBUG, with which tests make the server sleep or hold its upkeep. Not for servers that others use. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l script-time-limit -d 'Ends a script (EVAL) with an error that runs longer than this; nobody else is served meanwhile. What it has written stays. [default: 5s]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l watchdog -d 'Ends the process (SIGABRT) when an event loop has stood still for this long: what started it starts it anew. More than --script-time-limit. A loop that stands still for a second is logged and counted in any case. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l otlp -d 'Sends all figures of /metrics to a collector of OpenTelemetry, by OTLP over HTTP: http://127.0.0.1:4318. Beyond this machine it is for a collector beside the server to encrypt. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l otlp-interval -d 'How often; at least 1s. [default: 1m]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l cluster -d 'Makes this server a node of a cluster whose nodes are listed in a file, file:PATH, read anew when it changes: a line is a node\'s name, resp=ADDR memcached=ADDR http=ADDR as its clients reach it (tls:ADDR behind a comma for those over TLS), and weight=N. Each key is kept by one node, by the slots of Redis Cluster; database 0 alone is there. See docs/guide/many-machines.md. [default: off]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l node -d 'What this node is called in the list of --cluster. [default: none]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l log-level -d 'Least severe log lines that are printed: off, error, warn, info, debug, trace. [default: info]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -l log-format -d 'How log lines on standard error look. [default: text]' -r
complete -c cellar -n "__fish_cellar_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c cellar -n "__fish_cellar_using_subcommand hash-password" -s h -l help -d 'Print help'
