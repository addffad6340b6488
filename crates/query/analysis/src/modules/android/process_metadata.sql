-- The user that a package runs as; sandboxes and private computing have numbers of their own, each 10,000 above the last.
create perfetto function _user_of_package(app_id LONG) returns LONG as
select $app_id - iif($app_id >= 20000 and $app_id < 40000, $app_id / 10000 * 10000 - 10000, 0);

create perfetto table _packages_of_user as
select uid, count(*) as packages from package_list group by uid;

-- Of each process the package whose name is most of the process's, among those of its user. A process that is isolated has a user of its own, and
-- is known by its name alone.
create perfetto table _package_of_process as
with fitting as (
    select p.upid, l.package_name, l.version_code, l.debuggable,
        row_number() over (partition by p.upid order by length(p.name) - length(l.package_name), l.id) as place
    from process p
    join package_list l
    left join _packages_of_user u on u.uid = l.uid
    where (_user_of_package(p.android_appid) = l.uid and (u.packages = 1 or p.name glob l.package_name || '*'))
        or (p.android_appid >= 90000 and p.android_appid < 100000
            and str_split(p.name, ':', 0) glob l.package_name || '*')
)
select upid, package_name, version_code, debuggable from fitting where place = 1;

create perfetto table _android_kernel_tasks as
select p.upid
from process p left join process parent on parent.upid = p.parent_upid
where parent.name = 'kthreadd' or p.pid = 0 or parent.pid = 0
order by p.upid;

-- Whether a process is one of the kernel's own.
create perfetto function android_is_kernel_task(
    -- The process.
    upid LONG)
returns BOOL as
select count(*) > 0 from _android_kernel_tasks where upid = $upid;

-- Which package a process is of.
create perfetto table android_process_metadata(
    -- The process.
    upid JOINID(process.id),
    -- The process's number in the system.
    pid LONG,
    -- What it is called.
    process_name STRING,
    -- Its user, without the number of a person.
    uid LONG,
    -- 1 if several packages have this user.
    shared_uid BOOL,
    -- The person.
    user_id LONG,
    -- The package.
    package_name STRING,
    -- Its version.
    version_code LONG,
    -- Whether it may be debugged.
    debuggable LONG,
    -- Whether it is one of the kernel's own.
    is_kernel_task BOOL
) as
select p.upid, p.pid,
    -- The kernel's name has 15 letters at most, and may have been taken while the process was not yet what it is now.
    iif(length(p.name) = 15
        and (p.cmdline in ('zygote', 'zygote64', '<pre-initialized>') or p.cmdline glob '*' || p.name),
        p.cmdline, p.name) as process_name,
    p.android_appid as uid, iif(u.packages > 1, 1, null) as shared_uid, p.android_user_id as user_id,
    l.package_name, l.version_code, l.debuggable, k.upid is not null as is_kernel_task
from process p
left join _packages_of_user u on u.uid = _user_of_package(p.android_appid)
left join _package_of_process l on l.upid = p.upid
left join _android_kernel_tasks k on k.upid = p.upid
order by p.upid;
